/* The numbers of subscriptions are written as they are: to compress them took longer than to find them. */
do $$
declare
  part regclass;
begin
  for part in select 'trunkline.delivery'::regclass union all select i.inhrelid from pg_inherits i where i.inhparent = 'trunkline.delivery'::regclass loop
    execute format('alter table %s alter subscriptions set storage external', part);
  end loop;
end $$;
