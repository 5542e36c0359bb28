/* The documents that a query of the caller gives for keys: it takes them as $1 and has two columns, key and document.  JSON and text are taken as
   they are, other values become JSON.  It runs as the role of the session, which it cannot leave.
   Errors: TL403 the session may not act as its role, those of the query. */
create or replace function trunkline._tube_query(query text, keys text[])
returns table (key text, document text) language plpgsql
set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
  wanted text := format($query$
    select array_agg(q.key::text) as texts, array_agg(case when pg_typeof(q.document)::oid = any ('{25,18,19,114,705,1042,1043,3802}') then q.document::text
           else to_jsonb(q.document)::text end) as others, null::int[] as places, count(*) as n
      from (%s
      ) q (key, document) $query$, query);
  found record;
begin
  if trunkline._stored_plain(current_user, array[current_user]) then
    execute wanted into found using keys;
  else
    found := trunkline._run_as(current_user, wanted, keys);
  end if;
  return query select u.key, u.document from unnest(found.texts, found.others) u (key, document);
end $$;
select trunkline._access('_tube_query(text, text[])', 'reader');
