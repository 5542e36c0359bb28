/* What an instance that pulls from here has to know: which life this is, after which position it began, whether it is whole, what the clock says, up to which position of
   the other this one has everything, as far as it can tell, and what this one knows of the other (its kv_witness() takes it).  word is what the other knows of this
   one: it is compared first, and once after each start of the server nothing is exported before.  Errors: TL404, TL422. */
create or replace function trunkline.kv_hello(instance text, word jsonb default '{}')
returns table (origin bigint, whole boolean, began_after bigint, head bigint, clock bigint, pulled bigint, word_back jsonb)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  life trunkline.kv_life;
  mine trunkline.cursor;
begin
  perform trunkline._kv_asker_check(instance);
  perform trunkline.kv_witness(instance, word);
  life := trunkline._kv_life();
  mine := trunkline._kv_reached(trunkline._kv_from(instance));
  return query select life.origin, life.whole, life.began_after, trunkline.kv_head(), trunkline._kv_clock(),
    case when mine.state ? 'sure' then (mine.state ->> 'sure')::bigint when mine.state ->> 'copied' = 'true' then mine.up_to end,
    trunkline._kv_word(instance);
end $$;
comment on function trunkline.kv_hello(text, jsonb) is 'What an instance that pulls from here has to know.';
select trunkline._access('kv_hello(text, jsonb)', 'admin');
