/* Tables of an attachment (the table and its partitions) that miss a trigger of it. */
create or replace function trunkline._tube_untriggered(attached trunkline.tube_table)
returns setof regclass language sql stable as $$
  select r from trunkline._hook_tree(attached.relation) r
   where (select count(*) from pg_trigger g where g.tgrelid = r and g.tgname like format(E'trunkline\\_tube\\_%s\\_%%', attached.attachment)) < 4;
$$;
select trunkline._access('_tube_untriggered(trunkline.tube_table)', 'reader');
