/* TL410: deliveries after this one have left. */
create or replace function trunkline._broker_refuse_trimmed(present trunkline.broker_group, after bigint)
returns void language plpgsql stable as $$
begin
  raise exception using errcode = 'TL410', message = format('deliveries %s to %s of group "%s" have left: the group was behind for longer than broker.hold, or held more than broker.hold_bytes.', after + 1, present.trimmed_to, present.group_name),
    hint = format('Go on from the first there is: broker_seek() with up_to => %s.', present.trimmed_to), detail = jsonb_build_object('group_name', present.group_name, 'first', present.trimmed_to + 1)::text;
end $$;
