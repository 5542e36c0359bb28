/* The rows behind keys of an attached table as JSON; NULL for a key whose row is gone or does not meet the conditions.
   Runs with your rights.  Read pg_current_wal_insert_lsn() before it: that is the version to write downstream. */
create or replace function trunkline.tube_enrich(attachment int, keys text[])
returns table (key text, document jsonb) language plpgsql stable as $$
declare
  attached trunkline.tube_table := trunkline._tube_attachment(attachment);
  matches text := trunkline._tube_conditions(attached);
  this_row text;
begin
  if to_regclass(attached.relation_name) is null and not exists (select from pg_class c where c.oid = attached.relation) then
    return query select k, null::jsonb from unnest(keys) k;  -- the table is gone, and its rows with it
    return;
  end if;
  this_row := case when cardinality(attached.key_columns) = 1
    then format('r.%I = k.key::%s', attached.key_columns[1], attached.key_types[1])
    else (select string_agg(format('r.%I = (k.key::jsonb ->> %s)::%s', c, i - 1, attached.key_types[i]), ' and ')
            from unnest(attached.key_columns) with ordinality u (c, i)) end;
  return query execute format('select k.key, (select to_jsonb(r) from %s r where %s%s limit 1) from unnest($1) k (key)', attached.relation, this_row, matches) using keys;
end $$;
comment on function trunkline.tube_enrich(int, text[]) is 'The rows behind keys of an attached table as JSON; NULL for what is gone.';
select trunkline._access('tube_enrich(int, text[])', 'reader');
