/* Live tables with their columns as JSON (name, type, kind, array, nullable, comment, labels of an enum), how many subscribe to them, and what is
   wrong with the watch.  A table is called by its present name, with the schema in front where one of the same name became live earlier.
   role: list only tables from which this role may select, and of each only the columns that it may select.
   TL404 for a table that is not live, and for a role that does not exist. */
create or replace function trunkline.live_tables(relation regclass default null, role name default null)
returns table (relation text, name text, key_columns text[], columns jsonb, comment text, tagged boolean, subscriptions bigint, fault text, created_at timestamptz, oid oid)
language sql stable security definer set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $$
  select trunkline._raise('TL404', format('%s is not a live table.', $1), 'Its owner makes it one with live_watch(); live_tables() lists them.')
   where $1 is not null and not exists (select from trunkline.live_table t where t.relation = $1);
  select trunkline._raise('TL404', format('there is no role %s.', quote_ident($2)))
   where $2 is not null and not exists (select from pg_roles r where r.rolname = $2);
  select format('%I.%I', n.nspname, n.relname), case when n.nth = 1 then n.relname else n.nspname || '.' || n.relname end, w.key_columns, k.columns,
         obj_description(t.relation, 'pg_class'), t.tagged,
         (select count(*) from trunkline.live_subscription s where s.relation = t.relation), coalesce(w.fault, trunkline._broker_watch_fault(w)), t.created_at, t.relation::oid
    from (select l.relation, s.oid as namespace, s.nspname::text, c.relname::text, row_number() over (partition by c.relname order by l.created_at, c.oid) as nth
            from trunkline.live_table l join pg_class c on c.oid = l.relation join pg_namespace s on s.oid = c.relnamespace) n
    join trunkline.live_table t on t.relation = n.relation join trunkline.broker_watched_table w on w.relation = t.relation
    cross join lateral (
      select jsonb_agg(jsonb_build_object('name', c.name, 'type', c.shown, 'kind', c.kind, 'array', c.is_array,
               'nullable', c.nullable, 'comment', col_description(t.relation, c.place),
               'labels', (select coalesce(jsonb_agg(e.enumlabel order by e.enumsortorder), '[]') from pg_enum e where e.enumtypid = c.enum)) order by c.place) as columns
        from trunkline._live_column(t.relation) c
       where $2 is null or has_column_privilege($2, t.relation, c.place::int2, 'select')) k
   where ($1 is null or t.relation = $1) and ($2 is null or k.columns is not null and has_schema_privilege($2, n.namespace, 'usage'))
   order by 2;
$$;
comment on function trunkline.live_tables(regclass, name) is 'Live tables with their columns.';
select trunkline._access('live_tables(regclass, name)', 'reader');
