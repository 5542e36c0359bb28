/* Say where a tube goes, so that trunkline up can run it; a kind of NULL forgets it.  Passwords belong into the
   environment of the worker: name them as ${VARIABLE} in the options. */
create or replace function trunkline.tube_downstream(tube text, kind text, options jsonb default '{}')
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
begin
  if kind is null then
    delete from trunkline.tube_downstream d where d.tube_id = present.tube_id;
  elsif kind not in ('postgres', 'redis', 'opensearch', 'topic', 'callable') or jsonb_typeof(options) is distinct from 'object' then
    perform trunkline._raise('TL422', format('a downstream is postgres, redis, opensearch, topic or callable with options as an object, got "%s".', kind));
  else
    insert into trunkline.tube_downstream as d (tube_id, kind, options) values (present.tube_id, tube_downstream.kind, tube_downstream.options)
    on conflict on constraint tube_downstream_pkey do update set kind = excluded.kind, options = excluded.options, changed_at = clock_timestamp()
     where (d.kind, d.options) is distinct from (excluded.kind, excluded.options);
  end if;
end $$;
comment on function trunkline.tube_downstream(text, text, jsonb) is 'Say where a tube goes, so that trunkline up can run it.';
select trunkline._access('tube_downstream(text, text, jsonb)', 'writer');
