/* When what is written now expires: by a policy of its namespace, or after its own time; NULL when never.  TL404, TL422. */
create or replace function trunkline._kv_expires_at(namespace text, policy text, ttl interval)
returns timestamptz language plpgsql stable as $$
declare
  keep interval := ttl;
begin
  if policy is not null and ttl is not null then
    raise exception using errcode = 'TL422', message = 'a key expires by a policy or after a ttl, got both.';
  elsif policy is not null then
    select (e.value ->> 'keep')::interval into keep from trunkline.kv_entry e
     where e.namespace = 'parade' and e.key = format('policy/%s/%s', _kv_expires_at.namespace, _kv_expires_at.policy) and e.value is not null;
    if not found then
      raise exception using errcode = 'TL404', message = format('namespace "%s" has no policy "%s".', namespace, left(policy, 80)),
        hint = 'Make it with kv_policy_put().';
    end if;
  end if;
  if keep <= interval '0' then
    raise exception using errcode = 'TL422', message = format('a ttl is above 0, got %s.', keep);
  end if;
  return trunkline._kv_time() + keep;
exception when datetime_field_overflow then
  raise exception using errcode = 'TL422', message = format('a ttl of %s ends beyond all times.', keep);
end $$;
