/* What a condition would do: how it is looked up (index or scan) and why, its canonical text, how many of the last events
   match and how long that took, or the error that would put it in quarantine.  Keeps nothing.  Errors: TL413, TL422. */
create or replace function trunkline.broker_explain(condition text, params jsonb default '{}', max_events int default 1000)
returns table (way text, reason text, expression text, events int, matches int, milliseconds numeric, error text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  understood record := trunkline._condition_read(condition, params);
  wanted trunkline.broker_condition := understood.wanted;
  name text := 'trunkline_explain_' || replace(gen_random_uuid()::text, '-', '');
  head bigint := trunkline.broker_head();
  began timestamptz;
begin
  if max_events is null or max_events not between 0 and 100000 then
    raise exception using errcode = 'TL422', message = format('max_events is between 0 and 100000, got %s.', coalesce(max_events::text, 'NULL'));
  end if;
  way := case when wanted.event_key is null then 'scan' else 'index' end;
  reason := case when wanted.event_key is null
    then 'compared with every subscription that has it: no part of it says that something of e is equal to something of s, of the same type and without a cast'
    else format('looked up by the hash of %s', wanted.event_key) end;
  expression := wanted.expression;
  execute format('create temp table %I (like trunkline.broker_match_event) on commit drop', name);
  execute format('insert into pg_temp.%I select row_number() over (order by r.event_position), r.event_position, r.event_id, r.topic, r.key, r.payload, r.metadata, r.at, r.subscription
                    from trunkline._event_rows($1) r where r.subscription is null and (r.watch is null or coalesce(r.watch = any ($2), true))', name)
    using array(select generate_series(greatest(head - max_events + 1, 1), head)), trunkline._watch_readable(trunkline._caller());
  get diagnostics events = row_count;
  if wanted.kind = 'sql' then
    execute format('grant select on pg_temp.%I to trunkline_matcher', name);
  end if;
  began := clock_timestamp();
  begin
    select count(*) into matches from trunkline._match_run(wanted.kind, format(
      'select e.place, s.subscription from pg_temp.%I e cross join (select 0::bigint as subscription, %L::text as group_name, %L::jsonb as params) s where (%s)',
      name, '', understood.effective, wanted.expression)) r;
  exception when others then
    error := format('%s (%s)', sqlerrm, sqlstate);
  end;
  milliseconds := round(extract(epoch from clock_timestamp() - began) * 1000, 3);
  execute format('drop table pg_temp.%I', name);
  return next;
end $$;
comment on function trunkline.broker_explain(text, jsonb, int) is 'What a condition would do: index or scan, matches among the last events, time, error.';
select trunkline._access('broker_explain(text, jsonb, int)', 'reader');
