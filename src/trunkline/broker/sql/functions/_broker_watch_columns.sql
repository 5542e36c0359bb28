/* Columns of a table as triggers of it and of its parts may see them: virtual ones only by their expression.
   extra: only a part has the column. */
create or replace function trunkline._broker_watch_columns(relation regclass)
returns table (name text, place int, type text, expression text, extra boolean) language sql stable as $$
  select a.attname::text, a.attnum::int,
         case when t.typbasetype <> 0 then format_type(t.typbasetype, t.typtypmod) else format_type(a.atttypid, a.atttypmod) end,
         case when a.attgenerated = 'v' then pg_get_expr(d.adbin, d.adrelid) end, false
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
   where a.attrelid = relation and a.attnum > 0 and not a.attisdropped
  union all
  select distinct a.attname::text, 0, null, null, true
    from trunkline._hook_tree(relation) r join pg_attribute a on a.attrelid = r and a.attnum > 0 and not a.attisdropped
   where r <> relation
     and not exists (select from pg_attribute o where o.attrelid = relation and o.attname = a.attname and not o.attisdropped)
  order by 2, 1;
$$;
select trunkline._access('_broker_watch_columns(regclass)', 'reader');
