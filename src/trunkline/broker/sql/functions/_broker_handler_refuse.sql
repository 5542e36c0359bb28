/* Refuse another subscription for a handler that has one.  Nothing happens when the present one is gone.  TL409. */
create or replace function trunkline._broker_handler_refuse(present trunkline.broker_handler, subscription bigint)
returns void language plpgsql as $$
declare
  of_group text := (select g.group_name from trunkline.broker_group g where g.group_id = present.group_id);
  given jsonb := (select s.given from trunkline.broker_subscription s where s.subscription = _broker_handler_refuse.subscription and s.group_id = present.group_id);
begin
  if given is not null then
    raise exception using errcode = 'TL409', message = format('handler "%s" of group "%s" has subscription %s already, with the condition %s%s.', present.handler, of_group, subscription,
        left(coalesce(given ->> 'condition', 'NULL'), 200), case when given -> 'params' <> '{}' then ' and params ' || left(given ->> 'params', 200) else '' end),
      hint = 'replace => true puts the new condition in its place. To keep both, give the new one a handler of its own.', detail = jsonb_build_object('group_name', of_group, 'handler', present.handler, 'subscription', subscription)::text;
  end if;
end $$;
