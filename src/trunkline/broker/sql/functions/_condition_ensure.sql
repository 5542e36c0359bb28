/* The row of a condition, made on first use and locked against removal, and the params that its expression reads.
   Errors: as _condition_read(). */
create or replace function trunkline._condition_ensure(condition text, params jsonb, out found_one trunkline.broker_condition, out effective jsonb)
language plpgsql as $$
declare
  understood record;
  wanted trunkline.broker_condition;
begin
  loop
    understood := trunkline._condition_read(condition, params);
    wanted := understood.wanted;
    effective := understood.effective;
    select c.* into found_one from trunkline.broker_condition c where c.digest = wanted.digest and c.condition = wanted.condition for key share;
    exit when found;
    insert into trunkline.broker_condition (kind, condition, digest, expression, event_key, subscription_key)
    values (wanted.kind, wanted.condition, wanted.digest, wanted.expression, wanted.event_key, wanted.subscription_key)
    on conflict on constraint broker_condition_digest do nothing;
  end loop;
end $$;
