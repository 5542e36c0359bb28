/* Refuse a table of which writes could pass unseen, and expressions that do not fit.  A condition of the tube becomes part of a trigger of the
   table: it has to come from a role with the rights of the table's owner.  Errors: TL403, TL422. */
create or replace function trunkline._tube_check(tube trunkline.tube, wanted trunkline.tube_table)
returns void language plpgsql as $$
declare
  owner name := (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = wanted.relation);
begin
  perform trunkline._hook_check_table(wanted.relation, 'Attach');
  if tube.condition is not null and (tube.role is null or to_regrole(quote_ident(tube.role)) is null or not trunkline._may_act(tube.role, owner)) then
    raise exception using errcode = 'TL403', message = format('the condition of tube "%s" was set by %s, who does not own table %s.', tube.tube,
      coalesce(quote_ident(tube.role), 'an unknown role'), wanted.relation),
      hint = 'Set the condition as the owner of the table with tube_ensure(), then attach it.';
  end if;
  perform trunkline._hook_check_expression(wanted.relation, wanted.shard_expression, 'int');
  perform trunkline._hook_check_expression(wanted.relation, wanted.condition, 'boolean');
  perform trunkline._hook_check_expression(wanted.relation, tube.condition, 'boolean');
end $$;
select trunkline._access('_tube_check(trunkline.tube, trunkline.tube_table)', 'writer');
