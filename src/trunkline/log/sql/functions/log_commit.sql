/* Say that everything up to an offset of a partition is done.  Inside the transaction of the effect this is
   exactly once.  An offset that is done already changes nothing; to go back use log_seek().
   incarnation is that of the last batch that was handled: TL410 with the cut when another life of the server wrote what is
   there now, or nothing is there yet, because the server was restored or failed over to a standby that lagged behind.
   The epoch is checked as the last statement and holds until commit: TL423 when another process took over, or another life of the
   server began.
   Other errors: TL404, TL422 beyond the last offset or negative. */
create or replace function trunkline.log_commit(
  topic text, group_name text, partition int, epoch bigint, up_to bigint, incarnation int default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  part trunkline.log_partition := trunkline._log_partition_row(topic, partition);
  resource text := trunkline._log_resource(part.topic_id, group_name, partition);
  held trunkline.cursor := trunkline._cursor_hold(resource);
  tail bigint;
begin
  perform trunkline._log_group_may(topic, group_name, 'consume');
  if up_to < 0 then
    raise exception using errcode = 'TL422', message = format('up_to is the last offset that is done, 0 for none, got %s.', up_to);
  elsif coalesce(up_to > greatest(held.up_to, 0), true) then
    tail := trunkline._log_tail(part);
    if up_to > tail and current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
      raise exception using errcode = '40001', message = format('could not serialize commit: the snapshot of this transaction ends at offset %s', tail);
    elsif up_to is null or up_to > tail or incarnation <> (select max(i.incarnation) from trunkline.incarnation i) then
      if epoch > trunkline._epoch_floor((select max(i.incarnation) from trunkline.incarnation i)) then
        perform trunkline._owner_check(resource, epoch);  -- who was replaced is told that, not what is wrong with its offset
      end if;
      if incarnation is null or up_to is null then
        raise exception using errcode = 'TL422', message = format('partition %s of "%s" ends at %s, cannot commit %s.', partition, topic, tail, coalesce(up_to::text, 'NULL')),
          detail = jsonb_build_object('last', tail, 'asked', up_to)::text;
      elsif up_to >= part.first_offset then
        begin
          perform trunkline._log_check_position(topic, part, up_to + 1, incarnation);
        exception when undefined_table then
          perform trunkline._log_left();
        end;
      else
        perform trunkline._log_check_archived(topic, part, up_to, incarnation);
      end if;
    end if;
    perform trunkline._cursor_move(held, up_to);
  end if;
  perform trunkline._owner_check(resource, epoch);
end $$;
comment on function trunkline.log_commit(text, text, int, bigint, bigint, int) is
  'Say that everything up to an offset is done; refused when the epoch is over.';
select trunkline._access('log_commit(text, text, int, bigint, bigint, int)', 'reader');
