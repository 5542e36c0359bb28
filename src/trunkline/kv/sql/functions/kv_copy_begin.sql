/* A life of an instance begins to copy everything: from now on changes and deleted keys wait for it, until it confirms that it has them.  Returns the position after which it goes on with
   kv_export().  Errors: TL404, TL422. */
create or replace function trunkline.kv_copy_begin(instance text, origin bigint)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  held trunkline.cursor;
begin
  perform trunkline._kv_asker_check(instance);
  if origin is null then
    raise exception using errcode = 'TL422', message = 'a life has an origin, got NULL.';
  end if;
  insert into trunkline.kv_peer as p (instance, asked_origin, asked_at) values (kv_copy_begin.instance, kv_copy_begin.origin, clock_timestamp())
  on conflict on constraint kv_peer_pkey do update set asked_origin = excluded.asked_origin, asked_at = excluded.asked_at;
  held := trunkline._cursor_hold(trunkline._kv_to(instance));
  held := trunkline._cursor_move(held, trunkline.kv_head(), '{"copying": true}');
  return held.up_to;
end $$;
comment on function trunkline.kv_copy_begin(text, bigint) is 'A life of an instance begins to copy everything.';
select trunkline._access('kv_copy_begin(text, bigint)', 'admin');
