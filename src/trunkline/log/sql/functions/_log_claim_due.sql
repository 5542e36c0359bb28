/* The first claim that nobody works on any more: past its deadline, or its process is gone. */
create or replace function trunkline._log_claim_due(state jsonb, now_ timestamptz)
returns bigint language sql stable as $$
  select c.claim from trunkline._log_claims(state) c
   where c.deadline <= now_ or c.process is not null and not trunkline._lease_living(c.process, now_) limit 1;
$$;
