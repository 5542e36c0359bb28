/* Say where a tube goes, so that trunkline up can run it; a kind of NULL forgets it.  The worker reads and writes as the role that calls this, if
   it may act as it.  Passwords belong into the environment of the worker: name them as ${TRUNKLINE_DOWNSTREAM_...} in the options.
   Errors: TL404, TL422 an option that is unknown, missing, or of another type. */
create or replace function trunkline.tube_downstream(tube text, kind text, options jsonb default '{}')
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
begin
  perform trunkline._tube_may(present.tube, 'manage');
  if kind is null then
    delete from trunkline.tube_downstream d where d.tube_id = present.tube_id;
  elsif kind not in ('postgres', 'redis', 'opensearch', 'topic', 'callable') or jsonb_typeof(options) is distinct from 'object' then
    perform trunkline._raise('TL422', format('a downstream is postgres, redis, opensearch, topic or callable with options as an object, got "%s".', kind));
  else
    perform trunkline._tube_options_check(kind, options);
    insert into trunkline.tube_downstream as d (tube_id, kind, options, role)
    values (present.tube_id, tube_downstream.kind, tube_downstream.options, trunkline._caller())
    on conflict on constraint tube_downstream_pkey do update set kind = excluded.kind, options = excluded.options, role = excluded.role, changed_at = clock_timestamp()
     where (d.kind, d.options, d.role) is distinct from (excluded.kind, excluded.options, excluded.role);
  end if;
end $$;
comment on function trunkline.tube_downstream(text, text, jsonb) is 'Say where a tube goes, so that trunkline up can run it.';
select trunkline._access('tube_downstream(text, text, jsonb)', 'writer');
