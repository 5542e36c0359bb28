/* An instance says that everything up to a position is committed there: changes may leave, and what is dead may be forgotten when all have said so.
   Errors: TL404, TL410 it was not heard of for too long, TL422. */
create or replace function trunkline.kv_confirm(instance text, origin bigint, up_to bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  held trunkline.cursor;
begin
  perform trunkline._kv_follower_check(instance, origin);
  held := trunkline._cursor_hold(trunkline._kv_to(instance));
  if up_to is null or up_to > trunkline.kv_head() then
    raise exception using errcode = 'TL422', message = format('position %s is not numbered yet.', coalesce(up_to::text, 'NULL'));
  elsif up_to > held.up_to or up_to = held.up_to and held.state is not null then
    perform trunkline._cursor_move(held, up_to);
  end if;
  update trunkline.kv_peer p set asked_at = clock_timestamp()
   where p.instance = kv_confirm.instance and p.asked_at < clock_timestamp() - interval '30 seconds';
end $$;
comment on function trunkline.kv_confirm(text, bigint, bigint) is 'An instance says that everything up to a position is committed there.';
select trunkline._access('kv_confirm(text, bigint, bigint)', 'admin');
