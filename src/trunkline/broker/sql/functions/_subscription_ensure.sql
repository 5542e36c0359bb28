/* The row of a subscription, made on first use; begins NULL: it is matched with all others from now on, otherwise the
   history from there on first, since the matcher may have gone beyond that when it commits.  The same content is compared in full; the digest of condition and params
   only makes it fit an index.  One that is there keeps what it has matched; its expiry becomes the longer one, none being
   the longest.  It is locked against removal until the transaction ends.  TL409. */
create or replace function trunkline._subscription_ensure(of_group trunkline.broker_group, wanted trunkline.broker_condition, effective jsonb, condition text, params jsonb,
  expiry interval, begins bigint)
returns trunkline.broker_subscription language plpgsql as $$
declare
  present trunkline.broker_subscription;
  content bytea := sha256(convert_to(wanted.condition_id || ':' || effective::text, 'UTF8'));
  number bigint;
begin
  loop
    select s.* into present from trunkline.broker_subscription s
     where s.group_id = of_group.group_id and s.digest = content for key share;
    exit when found;
    number := nextval(pg_get_serial_sequence('trunkline.broker_subscription', 'subscription'));
    insert into trunkline.broker_subscription (subscription, group_id, condition_id, params, digest, given, key_hash, from_position, caught_up_to, expiry, idle_since, owner, owners)
    overriding system value
    values (number, of_group.group_id, wanted.condition_id, effective, content,
            jsonb_build_object('condition', case wanted.kind when 'sql' then to_jsonb(condition) else trunkline._condition_form(condition) end, 'params', params),
            trunkline._condition_hash(wanted, number, of_group.group_name, effective), coalesce(begins, trunkline.broker_head() + 1),
            begins - 1, expiry, clock_timestamp(), trunkline._caller(), array[trunkline._caller()])
    on conflict on constraint broker_subscription_content do nothing;
  end loop;
  if (present.condition_id, present.params::text) <> (wanted.condition_id, effective::text) then
    perform trunkline._raise('TL409', format('subscription %s has the digest of other content.', present.subscription), 'Add anything to the params.');
  end if;
  if present.owners <> '{}' and trunkline._caller() <> all (present.owners) then
    update trunkline.broker_subscription s set owners = s.owners || trunkline._caller() where s.subscription = present.subscription returning s.* into present;
  end if;
  if present.expiry < expiry or (expiry is null and present.expiry is not null) then
    update trunkline.broker_subscription s set expiry = _subscription_ensure.expiry where s.subscription = present.subscription returning s.* into present;
  end if;
  if present.expiry is not null and present.idle_since < clock_timestamp() - present.expiry / 10 then
    update trunkline.broker_subscription s set idle_since = clock_timestamp() where s.subscription = present.subscription returning s.* into present;
  end if;
  return present;
end $$;
