/* Enums are compared by the order of their labels; no name of a type of a user is run: shapes that may have one are made anew. */
do $$
declare
  each trunkline.live_subscription;
begin
  for each in select s.* from trunkline.live_subscription s join trunkline.live_shape h using (shape_id) where h.expression ~ '::' order by s.subscription loop
    delete from trunkline.live_subscription s where s.subscription = each.subscription;
    begin
      insert into trunkline.live_subscription (subscription, relation, changes, condition, columns, settings, process, role, created_at)
      values (each.subscription, each.relation, each.changes, each.condition, each.columns, each.settings, each.process, each.role, each.created_at);
    exception when others then
      raise warning 'live subscription % ends: %', each.subscription, sqlerrm;
    end;
  end loop;
  delete from trunkline.live_shape h where not exists (select from trunkline.live_subscription s where s.shape_id = h.shape_id);
end $$;
