/* The attachments of a table to a tube: the present one, earlier ones, and those of a table that had its name before. */
create or replace function trunkline._spark_attachments(tube text, relation text)
returns int[] language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(array_agg(a.attachment), '{}')
    from trunkline.tube t join trunkline.tube_table a on a.tube_id = t.tube_id
   where t.tube = $1
     and (a.relation = to_regclass($2)
          or a.relation_name in (select b.relation_name from trunkline.tube_table b where b.tube_id = t.tube_id and b.relation = to_regclass($2)));
$$;
select trunkline._access('_spark_attachments(text, text)', 'reader');
