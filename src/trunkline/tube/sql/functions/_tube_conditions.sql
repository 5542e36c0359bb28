/* The conditions of an attachment and its tube as one expression over a row r; NULL when there is none. */
create or replace function trunkline._tube_conditions(attached trunkline.tube_table, tube trunkline.tube)
returns text language sql immutable as $$
  select nullif(concat_ws(' and ', '(' || tube.condition || E'\n)', '(' || attached.condition || E'\n)'), '');
$$;
select trunkline._access('_tube_conditions(trunkline.tube_table, trunkline.tube)', 'reader');
