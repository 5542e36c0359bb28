/* Trigger on the table of a capability: keep the list of objects.  Arguments: the kind, and the name as an expression over the row r. */
create or replace function trunkline._object_follow()
returns trigger language plpgsql as $$
declare
  before text;
  after text;
begin
  if tg_op <> 'INSERT' then
    execute format('select %s from (select $1.*) r', tg_argv[1]) into before using old;
  end if;
  if tg_op <> 'DELETE' then
    execute format('select %s from (select $1.*) r', tg_argv[1]) into after using new;
  end if;
  if before is null and after is not null then
    perform trunkline._object_put(tg_argv[0], after, trunkline._caller());
  elsif after is null and before is not null then
    delete from trunkline.object o where o.object = tg_argv[0] || ':' || before;
  elsif before <> after then
    update trunkline.object o set object = tg_argv[0] || ':' || after, name = after where o.object = tg_argv[0] || ':' || before;
  end if;
  return null;
end $$;
