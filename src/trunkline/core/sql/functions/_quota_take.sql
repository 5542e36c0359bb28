/* Count messages and bytes against the quotas of the role that the session acts as: TL429 with the time to wait when a quota is used up.  Call it
   only where there is a quota: exists (select from trunkline.quota).  A quota holds the time until which it is used up; each message moves that time on, and it
   may lie one second ahead.  What one transaction counts stays counted when it rolls back.  Two transactions that count in the same instant may count as one:
   nothing waits for a lock here. */
create or replace function trunkline._quota_take(messages bigint, bytes bigint)
returns void language plpgsql as $$
declare
  now_ bigint := extract(epoch from clock_timestamp()) * 1000000;
  limits record;
  until bigint;
begin
  if trunkline._administers() then
    return;
  end if;
  for limits in
    select q.role, p.part, p.taken, p.most, format('trunkline.quota_%s_%s', q.quota_id, p.part) as sequence
      from trunkline.quota q join pg_roles r on r.rolname = q.role and pg_has_role(trunkline._caller(), r.oid, 'usage')
     cross join lateral (values ('messages', _quota_take.messages, q.messages_per_second), ('bytes', _quota_take.bytes, q.bytes_per_second)) p (part, taken, most)
     where p.most is not null
  loop
    execute format('select last_value from %s', limits.sequence) into until;
    if until > now_ + 1000000 - 1 then
      raise exception using errcode = 'TL429', message = format('role %s may write %s %s a second.', quote_ident(limits.role), limits.most, limits.part),
        hint = format('Wait %s seconds, or have an admin raise the quota with quota_set().', round((until - now_ - 1000000) / 1000000.0 + 0.001, 3)), detail = jsonb_build_object('role', limits.role, 'limit', limits.most, 'of', limits.part, 'retry_after', round((until - now_ - 1000000) / 1000000.0 + 0.001, 3))::text;
    end if;
    perform setval(limits.sequence, greatest(until, now_) + (limits.taken * 1000000.0 / limits.most)::bigint);
  end loop;
end $$;
