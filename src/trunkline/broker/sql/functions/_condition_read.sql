/* Understand a condition without keeping it: its row, with a number when it is known already, and the params that its
   expression reads.  Text that begins with { is the JSON form, NULL or nothing at all means every event.
   Conditions are the same when their texts are, compared in full: the digest only makes them fit an index.
   Errors: TL409, TL413, TL422. */
create or replace function trunkline._condition_read(condition text, params jsonb, out wanted trunkline.broker_condition, out effective jsonb)
language plpgsql as $$
declare
  known trunkline.broker_condition;
  constants jsonb;
begin
  perform trunkline._condition_limits(condition, params);
  if coalesce(condition, '') ~ E'^\\s*($|\\{)' then
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
  select c.* into known from trunkline.broker_condition c where c.digest = wanted.digest;
  if not found and wanted.kind = 'sql' then
    select c.expression, k.event_key, k.subscription_key into wanted.expression, wanted.event_key, wanted.subscription_key
      from trunkline._condition_check(condition) c, trunkline._condition_key(c.expression) k;
  elsif (known.kind, known.condition) <> (wanted.kind, wanted.condition) then
    raise exception using errcode = 'TL409', message = format('condition %s has the digest of another text.', known.condition_id),
      hint = 'Write the condition in other words.';
  elsif known.condition_id is not null then
    wanted := known;
  end if;
end $$;
