/* TL410: deliveries after this one have left, whether the group had read them or not. */
create or replace function trunkline._broker_refuse_left(present trunkline.broker_group, after bigint, hint text)
returns void language plpgsql stable as $$
begin
  perform trunkline._raise('TL410', format('deliveries %s to %s of group "%s" have left: %s.', after + 1, greatest(present.trimmed_to, present.left_to), present.group_name,
    case when after < present.trimmed_to then 'the group was behind for longer than broker.hold, or held more than broker.hold_bytes' else 'they were read, and are older than broker.retention' end),
    hint, jsonb_build_object('group_name', present.group_name, 'first', greatest(present.trimmed_to, present.left_to) + 1));
end $$;
