/* How far this instance has pulled from another, of which of its lives, in which life of this one, whether it has copied everything, how far the copy has come, and
   how many keys wait here for a lock, whichever instance sent them.  word is what this instance knows of the other, for its kv_hello(); start names the present start
   of the server: kv_apply() refuses what was read before it. */
create or replace function trunkline.kv_pulled(instance text)
returns table (life bigint, whole boolean, up_to bigint, state jsonb, clock bigint, waiting bigint, word jsonb, start text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.kv_life := trunkline._kv_life();
  reached trunkline.cursor := trunkline._kv_reached(trunkline._kv_from(instance));
begin
  return query select present.origin, present.whole, reached.up_to, reached.state, trunkline._kv_clock(),
    (select count(*) from trunkline.kv_held h where h.reason = 'lock'), trunkline._kv_word(instance), extract(epoch from pg_postmaster_start_time())::text;
end $$;
comment on function trunkline.kv_pulled(text) is 'How far this instance has pulled from another.';
select trunkline._access('kv_pulled(text)', 'admin');
