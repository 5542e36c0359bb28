/* A query over what tasks of the caller have staged, for batches with the place of the task as "task"; NULL when none had anything.  `expected` are the counts that
   the tasks reported: what differs was lost on the way (the server crashed: unlogged tables are empty then) and is a TL410. */
create or replace function trunkline._spark_staged(numbers bigint[], expected bigint[], kind text)
returns text language plpgsql as $$
declare
  unit text := case kind when 'rows' then 'row' else 'message' end;
  task record;
  there bigint;
begin
  for task in select u.number, u.expected, s.staging_id from unnest(numbers, expected) u (number, expected)
              left join trunkline.spark_staging s on s.staging_id = u.number and s.kind = _spark_staged.kind and s.maker = trunkline._caller()
  loop
    there := 0;
    if task.staging_id is not null then
      execute format('select %s from trunkline.spark_staging_%s b', case kind when 'rows' then 'count(*)' else 'coalesce(sum(b.n), 0)' end, task.number) into there;
    end if;
    if there is distinct from task.expected then
      raise exception using errcode = 'TL410', message = format('a task staged %s, %s there.', trunkline._counted(task.expected, unit), trunkline._counted(there, 'is', 'are')),
        hint = 'The server was restarted meanwhile, or the staging table was dropped by maintenance. Run it again: nothing was written.';
    end if;
  end loop;
  return (select string_agg(format('select %s b.* from trunkline.spark_staging_%s b', case when kind = 'batches' then u.ordinal || ' as task,' end, u.number), ' union all ')
            from unnest(numbers) with ordinality u (number, ordinal));
end $$;
