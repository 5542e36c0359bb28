/* Append the events of a topic to the topic of the log with the same name, in the order of their positions, and move its
   cursor in the same transaction: none is missed, none comes twice.  Returns how many it appended or set aside; 0 when
   nothing is there, or while somebody else forwards this topic.  Call it again until it returns 0.
   A message has the payload as JSON text, the metadata as headers, the id of the event, and goes to the partition of its
   key (UTF-8), as log_append() sends it; events without a key go all to the partition of the topic's name, which keeps their order.
   In a compacted topic the payload null is a tombstone, and events without a key share the empty key.
   Events for one subscription alone are not forwarded.
   One that is larger than log.batch_bytes is a batch with no message behind it.  One whose JSON has more bytes than
   broker.forward_bytes is set aside, see broker_unforwarded(), and holds up nothing.
   An append that is held open holds back its topic only: after a short wait for it 55P03 is raised and nothing was done.
   Locks: the cursor, then the partitions.  Writes: the log, broker_forward_aside.  Errors: TL400, TL404, TL422, 55P03. */
create or replace function trunkline.broker_forward(topic text, max_events int default 10000)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms' as $$
declare
  present trunkline.log_topic := trunkline._log_topic_row(topic);
  number bigint;
  done bigint;
  head bigint;
  reached bigint;
  appended int;
begin
  perform trunkline._lock_briefly();
  perform trunkline._isolation_check('Forwarding');
  if max_events is null or max_events < 1 then
    raise exception using errcode = 'TL422', message = format('max_events is at least 1, got %s.', coalesce(max_events::text, 'NULL'));
  end if;
  select k.cursor_id into number from trunkline.cursor_key k
   where k.resource = trunkline._broker_forward_resource(present.topic_id) for no key update skip locked;
  if not found then
    return 0;
  end if;
  -- statements of their own: they see what the one before us in the lock committed
  done := (trunkline._cursor_latest(number)).up_to;
  head := trunkline.broker_head();
  if head <= done then
    return 0;
  end if;
  loop  -- past events that are not forwarded, until there is one that is
    begin
      appended := trunkline._broker_forward_some(present, number, done, head, max_events, false);
    exception when program_limit_exceeded or internal_error then
      appended := trunkline._broker_forward_some(present, number, done, head, max_events, true);
    end;
    reached := (trunkline._cursor_latest(number)).up_to;
    exit when appended > 0 or reached = done or reached >= head;
    done := reached;
  end loop;
  return appended;
end $$;
comment on function trunkline.broker_forward(text, int) is 'Append the events of a topic to the topic of the log with the same name.';
select trunkline._access('broker_forward(text, int)', 'writer');
