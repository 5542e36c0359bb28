/* Give a dead letter up for good, or all of a handler; what was parked behind it goes on.  Returns how many.
   Errors: TL404, TL422. */
create or replace function trunkline.broker_dead_discard(retry bigint default null, group_name text default null, handler text default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  letters bigint[] := array(select t.retry from trunkline._broker_dead_take($1, $2, $3) t);
  settled record;
begin
  for settled in
    with gone as (delete from trunkline.broker_retry r where r.retry = any (letters) returning r.group_id, r.handler, r.key)
    select g.group_id, g.handler, array_agg(distinct g.key) as keys from gone g group by 1, 2
  loop
    perform trunkline._broker_keys_free(settled.group_id, settled.handler, settled.keys);
    perform pg_notify('trunkline', format('broker:group:%s:', settled.group_id));
  end loop;
  return cardinality(letters);
end $$;
comment on function trunkline.broker_dead_discard(bigint, text, text) is 'Give dead letters up: one, or all of a handler.';
select trunkline._access('broker_dead_discard(bigint, text, text)', 'writer');
