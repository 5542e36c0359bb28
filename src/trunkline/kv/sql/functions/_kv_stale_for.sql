/* Whether peers are seen to be away for so long, at intervals of less than ten minutes.  Notes that they are, at most once a minute. */
create or replace function trunkline._kv_stale_for(duration interval)
returns boolean language plpgsql as $$
declare
  now_ timestamptz := clock_timestamp();
begin
  update trunkline.kv_clock c
     set stale_at = now_, stale_since = case when c.stale_at between now_ - interval '10 minutes' and now_ then c.stale_since else now_ end
   where (c.stale_at between now_ - interval '1 minute' and now_) is not true;
  return (select c.stale_since <= now_ - duration from trunkline.kv_clock c);
end $$;
