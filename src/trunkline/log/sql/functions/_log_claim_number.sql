/* A number for a claim: the next of a sequence, and two bytes by chance.  A standby that lagged behind when it took over
   gives numbers of the sequence out again; who holds such a claim of before must not acknowledge another's. */
create or replace function trunkline._log_claim_number()
returns bigint language sql volatile as $$
  select (nextval('trunkline.cursor_seq') << 16) + floor(random() * 65536)::bigint;
$$;
