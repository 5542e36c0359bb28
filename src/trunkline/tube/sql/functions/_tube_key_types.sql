/* The types of columns as they are now, those of domains resolved.  TL422 for a column that is not there; where new keys
   are made also for one that may be NULL (such rows could not be told apart, nor be reached by a backfill) or that
   triggers do not see. */
create or replace function trunkline._tube_key_types(relation regclass, key_columns text[], making boolean default false)
returns text[] language plpgsql stable
set quote_all_identifiers = off as $$
declare
  types text[];
begin
  select array_agg(case when t.typbasetype <> 0 then format_type(t.typbasetype, t.typtypmod) else format_type(a.atttypid, a.atttypmod) end order by c.place)
    into types
    from unnest(key_columns) with ordinality c (name, place)
    left join (pg_attribute a join pg_type t on t.oid = a.atttypid)
      on a.attrelid = relation and a.attname = c.name and a.attnum > 0 and not a.attisdropped and (not making or a.attnotnull and a.attgenerated <> 'v');
  if array_position(types, null) is not null then
    raise exception using errcode = 'TL422', message = format('table %s has no column %s%s.', relation, coalesce(quote_ident(key_columns[array_position(types, null)]), 'NULL'),
      case when making then ' that is stored and not null' else '' end),
      hint = 'Keys are made of columns that are declared NOT NULL; after a column was renamed attach the table again.';
  end if;
  return types;
end $$;
select trunkline._access('_tube_key_types(regclass, text[], boolean)', 'reader');
