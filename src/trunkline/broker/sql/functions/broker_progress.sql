/* Note where a reader is that keeps its position elsewhere (Spark in its checkpoint): the handler then stands just after that delivery in
   every lane, whether that is forth or back.  What comes after it stays, and shows in broker_groups()
   and broker_lag().  A group whose reader says so now and then is not abandoned.  What is noted already writes nothing.
   Errors: TL404, TL409 a living member works on the handler, TL422 a delivery that does not exist yet. */
create or replace function trunkline.broker_progress(group_name text, handler text, up_to bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_for(group_name, 'consume');
  reached bigint := greatest(up_to, present.trimmed_to);
  name text;
  held trunkline.cursor;
begin
  perform trunkline._broker_handler_row(present, handler);
  if up_to is null or up_to < 0 or up_to > trunkline._broker_delivered() then
    raise exception using errcode = 'TL422', message = format('deliveries go from 0 to %s, got %s.', trunkline._broker_delivered(), coalesce(up_to::text, 'NULL'));
  end if;
  for lane in 0 .. present.lanes - 1 loop
    name := trunkline._broker_resource(present.group_id, handler, lane);
    if exists (select from trunkline.owner o where o.resource = name and trunkline._lease_living(o.process)) then
      raise exception using errcode = 'TL409', message = format('lane %s of handler "%s" of group "%s" has a living member.', lane, handler, group_name),
        hint = 'Give the reader a group of its own.';
    end if;
    if trunkline._broker_position(present.group_id, handler, lane) is distinct from reached then
      held := trunkline._cursor_hold(name);
      if held.up_to is distinct from reached then
        perform trunkline._cursor_move(held, reached);
      end if;
    end if;
  end loop;
  perform trunkline._broker_handler_row(present, handler);  -- it may have been deleted while we waited
  if present.idle_since < clock_timestamp() - trunkline._setting('broker.abandoned_after')::interval / 10 then
    update trunkline.broker_group g set idle_since = null where g.group_id = present.group_id;
  end if;
end $$;
comment on function trunkline.broker_progress(text, text, bigint) is 'Note where a reader is that keeps its position elsewhere.';
select trunkline._access('broker_progress(text, text, bigint)', 'reader');
