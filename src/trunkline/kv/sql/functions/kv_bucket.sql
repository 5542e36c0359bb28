/* All keys of some parts, dead ones too, as JSON for kv_apply(); a copy that is not whole tells only what it is sure of.
   Errors: TL404, TL410, TL422. */
create or replace function trunkline.kv_bucket(instance text, origin bigint, buckets int, chosen int[])
returns jsonb language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  life trunkline.kv_life;
begin
  perform trunkline._kv_follower_check(instance, origin);
  if buckets is null or buckets not between 1 and 1000000 or chosen is null or exists (select from unnest(chosen) c where c is null or c not between 0 and buckets - 1) then
    raise exception using errcode = 'TL422', message = format('there are 1 to 1000000 parts, numbered from 0, got %s of %s.', coalesce(left(chosen::text, 80), 'NULL'), coalesce(buckets::text, 'NULL'));
  end if;
  life := trunkline._kv_life_present();
  return (select coalesce(jsonb_agg(trunkline._kv_state(e)), '[]') from trunkline.kv_entry e
           where trunkline._kv_bucket_of(e.namespace, e.key, buckets) = any (chosen)
             and (life.whole or not trunkline._kv_doubtful(e, life)));
end $$;
comment on function trunkline.kv_bucket(text, bigint, int, int[]) is 'All keys of some parts, for kv_apply() elsewhere.';
select trunkline._access('kv_bucket(text, bigint, int, int[])', 'admin');
