/* Change or end a claim in flight: a deadline of NULL ends it.  TL423 when it is not in flight any more. */
create or replace function trunkline._log_claim_change(topic text, group_name text, partition int, claim bigint, deadline timestamptz, reason text default null)
returns void language plpgsql as $$
declare
  part trunkline.log_partition := trunkline._log_partition_row(topic, partition);
  seen trunkline.cursor;
  changed jsonb;
begin
  perform trunkline._log_group_may(topic, group_name, 'consume');
  perform trunkline._isolation_check('A change of a claim');
  seen := trunkline._cursor_hold(trunkline._log_resource(part.topic_id, group_name, partition));
  if not exists (select from trunkline._log_claims(seen.state) c where c.claim = _log_claim_change.claim) then
    raise exception using errcode = 'TL423', message = format('claim %s of group "%s" is not in flight.', claim, group_name),
      hint = 'It was acknowledged, or its deadline passed and another process has it.', detail = jsonb_build_object('claim', claim)::text;
  end if;
  select jsonb_agg(case when (c ->> 'claim')::bigint = _log_claim_change.claim then c || jsonb_strip_nulls(jsonb_build_object('deadline', _log_claim_change.deadline, 'reason', _log_claim_change.reason)) else c end)
    into changed from jsonb_array_elements(seen.state) c
   where (c ->> 'claim')::bigint <> _log_claim_change.claim or _log_claim_change.deadline is not null;
  perform trunkline._cursor_move(seen, seen.up_to, changed);
end $$;
