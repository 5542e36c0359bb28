/* Tables of an attachment (the table and its partitions) that miss a trigger of it. */
create or replace function trunkline._tube_untriggered(attached trunkline.tube_table)
returns setof regclass language sql stable as $$
  select c.oid::regclass
    from (select attached.relation::oid union select t.relid from pg_partition_tree(attached.relation) t) r (oid) join pg_class c using (oid)
   where (select count(*) from pg_trigger g where g.tgrelid = c.oid and g.tgname like format('trunkline\_tube\_%s\_%%', attached.attachment)) < 4;
$$;
select trunkline._access('_tube_untriggered(trunkline.tube_table)', 'reader');
