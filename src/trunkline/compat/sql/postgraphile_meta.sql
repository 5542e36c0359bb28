/* The table on which policies of postgraphile-fancy-subscriptions stand.  A trigger inserts a row for each
   live subscription with the rights of the role that subscribes: a policy that refuses the row refuses the
   subscription. */
create table if not exists postgraphile_meta.subscriptions (
  id bigint constraint subscriptions_pkey primary key
    references trunkline.live_subscription on delete cascade,
  created_at timestamptz not null default now(),
  worker_device_id text,
  topic text not null,
  is_temporary boolean not null,
  additional_data jsonb not null
);
comment on table postgraphile_meta.subscriptions is
  'Live subscriptions, for policies to speak of. additional_data has inputCondition.';
grant insert on postgraphile_meta.subscriptions to public;
alter table postgraphile_meta.subscriptions enable row level security;
drop policy if exists live_open on postgraphile_meta.subscriptions;
-- where no policy of the user speaks of a role, policies on trunkline.live_subscription decide alone
create policy live_open on postgraphile_meta.subscriptions using (true) with check (
  not exists (select from pg_catalog.pg_policy p
               where p.polrelid = 'postgraphile_meta.subscriptions'::regclass
                 and p.polname <> 'live_open' and p.polpermissive and p.polcmd in ('*', 'a')
                 and (p.polroles @> array[0::oid]
                      or exists (select from unnest(p.polroles) r
                                  where r <> 0 and pg_has_role(r, 'usage')))));

/* org_id as orgId. */
create or replace function postgraphile_meta._camel(name text)
returns text language sql immutable set search_path = pg_catalog, pg_temp as $$
  select string_agg(
           case when m.place = 1 then lower(left(m.word[1], 1)) else upper(left(m.word[1], 1)) end
           || substr(m.word[1], 2), '' order by m.place)
    from regexp_matches($1, '[A-Za-z0-9]+', 'g') with ordinality m (word, place);
$$;

/* The condition as the document has it: names in camel case, a value for what must be equal. */
create or replace function postgraphile_meta._input_condition(condition jsonb)
returns jsonb language sql immutable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(postgraphile_meta._camel(c.key), coalesce(c.value -> 'eq', c.value)), '{}')
    from jsonb_each($1) c;
$$;

create or replace function postgraphile_meta._subscribe()
returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  insert into postgraphile_meta.subscriptions (id, worker_device_id, topic, is_temporary, additional_data)
  values (new.subscription, new.process::text, new.relation::text, new.process is not null,
    jsonb_build_object('inputCondition', postgraphile_meta._input_condition(new.condition)));
  return null;
end $$;
create or replace trigger postgraphile_meta_subscribe after insert on trunkline.live_subscription
  for each row execute function postgraphile_meta._subscribe();
