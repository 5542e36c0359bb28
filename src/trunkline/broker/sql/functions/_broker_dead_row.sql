/* The row of a dead letter; TL404. */
create or replace function trunkline._broker_dead_row(retry bigint)
returns trunkline.broker_retry language plpgsql stable as $$
declare
  letter trunkline.broker_retry;
begin
  select r.* into letter from trunkline.broker_retry r where r.retry = _broker_dead_row.retry and r.status = 'dead'
     and (r.watch is null or coalesce(r.watch = any (trunkline._watch_readable(trunkline._caller())), true));
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no dead letter %s.', coalesce(retry::text, 'NULL')),
      hint = 'List what there is with broker_dead_list().', detail = jsonb_build_object('retry', retry)::text;
  end if;
  return letter;
end $$;
