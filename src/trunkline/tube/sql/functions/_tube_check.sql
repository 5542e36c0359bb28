/* Refuse a table of which writes could pass unseen, and expressions that do not fit.  TL422. */
create or replace function trunkline._tube_check(tube trunkline.tube, wanted trunkline.tube_table)
returns void language sql as $$
  select trunkline._hook_check_table(wanted.relation, 'Attach');
  select trunkline._hook_check_expression(wanted.relation, wanted.shard_expression, 'int');
  select trunkline._hook_check_expression(wanted.relation, wanted.condition, 'boolean');
  select trunkline._hook_check_expression(wanted.relation, tube.condition, 'boolean');
$$;
select trunkline._access('_tube_check(trunkline.tube, trunkline.tube_table)', 'writer');
