/* The columns of a table's primary key, in its order; none where it has no key. */
create or replace function trunkline._broker_watch_primary_key(relation regclass)
returns text[] language sql stable as $$
  select array(
    select a.attname::text from pg_index i
      cross join lateral unnest(i.indkey::int2[]) with ordinality k (attnum, place)
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
     where i.indrelid = relation and i.indisprimary and k.place <= i.indnkeyatts order by k.place);
$$;
select trunkline._access('_broker_watch_primary_key(regclass)', 'reader');
