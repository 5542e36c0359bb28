/* What a key says at a time: its document with what was counted added to its fields; NULL when it does not live.  A number of the document that is too large to
   add to (see _kv_addable) counts as 0: no key shall become unreadable by what two zones wrote at once. */
create or replace function trunkline._kv_value(entry trunkline.kv_entry, now_ timestamptz)
returns jsonb language plpgsql stable as $$
declare
  document jsonb := case when entry.expires_at <= now_ then null else entry.value end;
  counted jsonb;
begin
  if entry.counted_until is null or entry.counted_until <= now_ or jsonb_typeof(document) <> 'object' then
    return document;
  end if;
  select jsonb_object_agg(f.field, f.sum + case when trunkline._kv_addable(document -> f.field) then (document -> f.field)::numeric else 0 end)
    into counted
    from (select c.field, sum(c.sum - c.gone_sum) as sum from trunkline.kv_counter c
           where c.namespace = entry.namespace and c.key = entry.key and c.version > c.gone_version group by c.field) f;
  return coalesce(document, '{}') || coalesce(counted, '{}');
end $$;
