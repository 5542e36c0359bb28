/* Columns of a live table as they come in events: their place, the type under a domain, whether it is an array, and what
   conditions can say of it: number, text, boolean, ordered, json or other.  Types that are not of Postgres itself are other: their
   functions belong to somebody else, and would run as the owner of this schema.  Enums are not: they have none; enum is the number of theirs. */
create or replace function trunkline._live_column(relation regclass)
returns table (name text, place int, type oid, shown text, kind text, is_array boolean, nullable boolean, collation_name text, enum oid)
language sql stable as $$
  select c.name, c.place, b.oid, format_type(b.oid, case when e.typname = 'bpchar' then a.atttypmod end),
         case when e.typname in ('int2', 'int4', 'int8', 'numeric', 'float4', 'float8') and e.typnamespace = 'pg_catalog'::regnamespace then 'number'
              when e.typname in ('text', 'varchar', 'bpchar', 'name') and e.typnamespace = 'pg_catalog'::regnamespace then 'text'
              when e.typname = 'bool' and e.typnamespace = 'pg_catalog'::regnamespace then 'boolean'
              when e.typname in ('date', 'time', 'timestamp', 'timestamptz', 'uuid', 'bytea', 'inet', 'cidr') and e.typnamespace = 'pg_catalog'::regnamespace
                or e.typtype = 'e' then 'ordered'
              when e.typname = 'jsonb' and e.typnamespace = 'pg_catalog'::regnamespace then 'json'
              else 'other' end,
         b.typcategory = 'A', not a.attnotnull,
         case when e.typcollation <> 0 and a.attcollation not in (0, (select o.oid from pg_collation o where o.collname = 'default'))
              then (select format('%I.%I', n.nspname, o.collname) from pg_collation o join pg_namespace n on n.oid = o.collnamespace where o.oid = a.attcollation) end,
         case when e.typtype = 'e' then e.oid end
    from trunkline._broker_watch_columns(relation) c
    join pg_attribute a on a.attrelid = relation and a.attnum = c.place
    join lateral (
      with recursive under as (
        select t.oid, t.typbasetype, t.typtype from pg_type t where t.oid = a.atttypid
        union all
        select t.oid, t.typbasetype, t.typtype from under u join pg_type t on t.oid = u.typbasetype where u.typtype = 'd')
      select t.* from under u join pg_type t on t.oid = u.oid where u.typtype <> 'd') b on true
    join pg_type e on e.oid = case when b.typcategory = 'A' and b.typelem <> 0 then b.typelem else b.oid end
   where not c.extra and exists (select from trunkline.broker_watched_table w
                                  where w.relation = $1 and (w.columns is null or c.name = any (w.columns || w.key_columns)));
$$;
