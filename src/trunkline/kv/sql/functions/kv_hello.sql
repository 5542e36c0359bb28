/* What an instance that pulls from here has to know: which life this is, after which position it began, whether it is whole, what the clock says, and up to which position of
   the other this one has everything, as far as it can tell.  Writes nothing but the beginning of a life.  Errors: TL404. */
create or replace function trunkline.kv_hello(instance text)
returns table (origin bigint, whole boolean, began_after bigint, head bigint, clock bigint, pulled bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  life trunkline.kv_life := trunkline._kv_life();
  mine trunkline.cursor;
begin
  perform trunkline._kv_asker_check(instance);
  mine := trunkline._kv_reached(trunkline._kv_from(instance));
  return query select life.origin, life.whole, life.began_after, trunkline.kv_head(), trunkline._kv_clock(),
    case when mine.state ? 'sure' then (mine.state ->> 'sure')::bigint when mine.state ->> 'copied' = 'true' then mine.up_to end;
end $$;
comment on function trunkline.kv_hello(text) is 'What an instance that pulls from here has to know.';
select trunkline._access('kv_hello(text)', 'admin');
