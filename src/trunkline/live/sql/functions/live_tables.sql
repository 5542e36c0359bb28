/* Live tables with their columns as JSON (name, type, kind, array, nullable, comment, labels of an enum), how many subscribe to them, and what is
   wrong with the watch.  TL404 for a table that is not live. */
create or replace function trunkline.live_tables(relation regclass default null)
returns table (relation text, name text, key_columns text[], columns jsonb, comment text, tagged boolean, subscriptions bigint, fault text, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._raise('TL404', format('%s is not a live table.', $1), 'Its owner makes it one with live_watch(); live_tables() lists them.')
   where $1 is not null and not exists (select from trunkline.live_table t where t.relation = $1);
  select w.relation_name, t.name, w.key_columns,
         (select jsonb_agg(jsonb_build_object('name', c.name, 'type', c.shown, 'kind', c.kind, 'array', c.is_array,
                   'nullable', c.nullable, 'comment', col_description(t.relation, c.place),
                   'labels', (select coalesce(jsonb_agg(e.enumlabel order by e.enumsortorder), '[]') from pg_enum e
                               where e.enumtypid = case when c.is_array then (select b.typelem from pg_type b where b.oid = c.type) else c.type end)) order by c.place)
            from trunkline._live_column(t.relation) c),
         obj_description(t.relation, 'pg_class'), t.tagged,
         (select count(*) from trunkline.live_subscription s where s.relation = t.relation), w.fault, t.created_at
    from trunkline.live_table t join trunkline.broker_watched() w on w.relation = t.relation
   where $1 is null or t.relation = $1
   order by t.name;
$$;
comment on function trunkline.live_tables(regclass) is 'Live tables with their columns.';
select trunkline._access('live_tables(regclass)', 'reader');
