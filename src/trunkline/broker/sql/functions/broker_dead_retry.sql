/* Try a dead letter once more, or all of a handler.  One that is not the oldest of its key waits until those before it
   are settled.  If it fails it is a dead letter again.  Returns how many.  Errors: TL404, TL422. */
create or replace function trunkline.broker_dead_retry(retry bigint default null, group_name text default null, handler text default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  letters bigint[] := array(select t.retry from trunkline._broker_dead_take($1, $2, $3) t);
begin
  update trunkline.broker_retry r
     set (status, due_at, batch) = (
       select case when held then 'parked' else 'waiting' end,
              case when not held then clock_timestamp() end,
              case when not held then r.retry end
         from (select h.ordering = 'strict' and exists (
                 select from trunkline.broker_retry o
                  where o.group_id = r.group_id and o.handler = r.handler and o.key = r.key and o.delivery < r.delivery)
                 from trunkline.broker_handler h where h.group_id = r.group_id and h.handler = r.handler) s (held))
   where r.retry = any (letters);
  perform pg_notify('trunkline', format('broker:group:%s:', g.group_id))
     from (select distinct r.group_id from trunkline.broker_retry r where r.retry = any (letters)) g;
  return cardinality(letters);
end $$;
comment on function trunkline.broker_dead_retry(bigint, text, text) is 'Try dead letters once more: one, or all of a handler.';
select trunkline._access('broker_dead_retry(bigint, text, text)', 'writer');
