/* How many events are numbered and not matched yet, and how long the first of them has waited. */
create or replace function trunkline.broker_unmatched(out events bigint, out age interval)
language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
  select trunkline.broker_head() - trunkline._broker_matched(),
         coalesce(clock_timestamp() - (select t.at from trunkline.tick t, trunkline._broker_matched() m
                                        where t.sequence = 'event' and t.first_position + t.n - 1 > m and t.first_position > m - 10000  -- no tick has more
                                        order by t.first_position limit 1), '0');
$$;
comment on function trunkline.broker_unmatched() is 'How many events are numbered and not matched yet, and since when.';
select trunkline._access('broker_unmatched()', 'reader');
