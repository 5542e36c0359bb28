/* The row of a condition, made on first use, and the params that its expression reads.  Text that begins with { is the
   JSON form, NULL or nothing at all means every event.  Conditions are the same when their texts are, compared in full:
   the digest only makes them fit an index.  Errors: TL413, TL422. */
create or replace function trunkline._condition_ensure(condition text, params jsonb, out found_one trunkline.broker_condition, out effective jsonb)
language plpgsql as $$
declare
  wanted trunkline.broker_condition;
  constants jsonb;
begin
  perform trunkline._condition_limits(condition, params);
  if coalesce(condition, '') ~ '^\s*($|\{)' then
    select 'json', c.expression, c.expression, c.event_key, c.subscription_key, c.constants
      into wanted.kind, wanted.condition, wanted.expression, wanted.event_key, wanted.subscription_key, constants
      from trunkline._condition_compile(trunkline._condition_form(condition)) c;
    effective := jsonb_build_object('c', constants) || case when params = '{}' then '{}' else jsonb_build_object('given', params) end;
  else
    wanted.kind := 'sql';
    wanted.condition := condition;
    effective := params;
  end if;
  wanted.digest := sha256(convert_to(wanted.kind || ':' || wanted.condition, 'UTF8'));
  loop
    -- locked, for broker_expire() forgets conditions that nobody uses
    select c.* into found_one from trunkline.broker_condition c where c.digest = wanted.digest for key share;
    exit when found;
    if wanted.kind = 'sql' then
      select c.expression, k.event_key, k.subscription_key into wanted.expression, wanted.event_key, wanted.subscription_key
        from trunkline._condition_check(condition) c, trunkline._condition_key(c.expression) k;
    end if;
    insert into trunkline.broker_condition (kind, condition, digest, expression, event_key, subscription_key)
    values (wanted.kind, wanted.condition, wanted.digest, wanted.expression, wanted.event_key, wanted.subscription_key)
    on conflict on constraint broker_condition_digest do nothing;
  end loop;
  if (found_one.kind, found_one.condition) <> (wanted.kind, wanted.condition) then
    perform trunkline._raise('TL409', format('condition %s has the digest of another text.', found_one.condition_id), 'Write the condition in other words.');
  end if;
end $$;
