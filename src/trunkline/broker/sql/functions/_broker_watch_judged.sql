/* The events of a change in which something failed: a query that looks at each row by itself, see _broker_watch_judge(), whose texts
   are its parameters.  by_key: old and new rows are not as many, because a trigger held back one that went to another
   partition; they are told by their keys. */
create or replace function trunkline._broker_watch_judged(operation text, relation regclass, key_columns text[], by_key boolean)
returns text language sql stable as $$
  select trunkline._broker_watch_events(operation, format(t, 'old_rows', relation), format(t, 'new_rows', relation), case when by_key then 'key' else 'judged' end, key_columns)
    from (values ('(select row_number() over () as n, j.* from %I r cross join lateral trunkline._broker_watch_judge((r.*)::%s, $1, $2, $3, $4) j)')) v (t);
$$;
select trunkline._access('_broker_watch_judged(text, regclass, text[], boolean)', 'writer');
