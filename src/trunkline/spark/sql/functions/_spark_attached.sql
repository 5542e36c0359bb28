/* The tables of a tube (or one) as far as reading their rows by key needs them: the name as it is now, quoted; columns and
   types of the key; the conditions of tube and table as one expression over a row r, which raises TL403 where the session is not to evaluate
   what their authors wrote; whether a row may change its shard; how many rows there are in the planner's opinion.  No row for a table that is not attached. */
create or replace function trunkline._spark_attached(tube text, relation text default null)
returns table (relation text, key_columns text[], key_types text[], condition text, moves boolean, estimate bigint)
language sql stable as $$
  select format('%I.%I', n.nspname, c.relname), r.key_columns, trunkline._tube_key_types(r.relation, r.key_columns),
         case when r.condition is null then 'true' when trunkline._stored_plain(coalesce(nullif(current_setting('role'), 'none'), session_user)::name, r.authors) then r.condition
              else format('trunkline._spark_refuse(%L, %L)', r.relation, r.authors) end,
         r.shard is null, greatest(c.reltuples, 0)::bigint
    from (select distinct l.tube from trunkline.tube_list() l where l.tube = $1) l
    cross join lateral trunkline._tube_tables((trunkline._tube_row(l.tube)).tube_id) a
    cross join lateral (select (d.attached).*, d.authors from trunkline._tube_reading(a.attachment) d) r
    join pg_catalog.pg_class c on c.oid = r.relation join pg_catalog.pg_namespace n on n.oid = c.relnamespace
   where $2 is null or r.relation = to_regclass($2);
$$;
select trunkline._access('_spark_attached(text, text)', 'reader');
