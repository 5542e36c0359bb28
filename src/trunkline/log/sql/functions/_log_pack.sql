/* Pack messages into a record batch of codec none. */
create or replace function trunkline._log_pack(payloads bytea[], keys bytea[], headers jsonb[])
returns trunkline.log_batch language plpgsql immutable as $$
declare
  batch trunkline.log_batch;
begin
  batch.n := cardinality(payloads);
  batch.format := 1;
  batch.codec := 0;
  select E'\\x00000000'::bytea || string_agg(trunkline._log_int_bytes(u.ends), '' order by u.ordinal),
         string_agg(coalesce(u.value, ''), '' order by u.ordinal)
    into batch.value_ends, batch.payload
    from (select p.value, p.ordinal, sum(coalesce(octet_length(p.value), 0)) over (order by p.ordinal)::int as ends
            from unnest(payloads) with ordinality p (value, ordinal)) u;
  batch.value_valid := trunkline._log_valid_bytes(array(select p.value is not null from unnest(payloads) with ordinality p (value, ordinal) order by p.ordinal));
  if exists (select from unnest(keys) k where k is not null) then
    select E'\\x00000000'::bytea || string_agg(trunkline._log_int_bytes(u.ends), '' order by u.ordinal),
           string_agg(coalesce(u.value, ''), '' order by u.ordinal)
      into batch.key_ends, batch.keys
      from (select p.value, p.ordinal, sum(coalesce(octet_length(p.value), 0)) over (order by p.ordinal)::int as ends
              from unnest(keys) with ordinality p (value, ordinal)) u;
    batch.key_valid := trunkline._log_valid_bytes(array(select p.value is not null from unnest(keys) with ordinality p (value, ordinal) order by p.ordinal));
  end if;
  if exists (select from unnest(headers) h where h is not null) then
    batch.headers := convert_to(to_jsonb(headers)::text, 'UTF8');
  end if;
  return batch;
end $$;
