/* What lies in a range of positions of a lane, without the keys themselves: for each entry its table as it is called now,
   its control and how many keys it has.  relation is NULL where there is no table, or none any more.
   Reads only.  Errors as tube_read(). */
create or replace function trunkline.tube_outline(
  tube text, lane int, priority int, from_position bigint, to_position bigint, max_entries int default 1000)
returns table (up_to bigint, relation text, control text, keys int)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select e.up_to, format('%I.%I', n.nspname, c.relname), e.control, cardinality(e.keys)
    from trunkline.tube_read($1, $2, $3, $4, $5, $6) e
    left join (trunkline.tube_table a join pg_class c on c.oid = a.relation join pg_namespace n on n.oid = c.relnamespace) on a.attachment = e.attachment
   order by e.up_to;
$$;
comment on function trunkline.tube_outline(text, int, int, bigint, bigint, int) is 'What lies in a range of positions of a lane, without the keys.';
select trunkline._access('tube_outline(text, int, int, bigint, bigint, int)', 'reader');
