/* A row as JSON column by column, where it cannot be told as a whole.  A column that JSON cannot hold, as json with a \u0000 in it, is
   told by its text, of which jsonb can hold 60 million characters whatever they are. */
create or replace function trunkline._broker_watch_columnwise(it anyelement, columns text[])
returns jsonb language plpgsql as $$
declare
  image jsonb := '{}';
  name text;
  told jsonb;
begin
  for name in select a.attname from pg_type t join pg_attribute a on a.attrelid = t.typrelid
               where t.oid = pg_typeof(it) and a.attnum > 0 and not a.attisdropped and (columns is null or a.attname = any (columns)) loop
    begin
      execute format('select to_jsonb(($1).%I)', name) into told using it;
    exception when others then
      execute format('select to_jsonb(left(($1).%I::text, 60000000))', name) into told using it;
    end;
    image := image || jsonb_build_object(name, told);
  end loop;
  return image;
end $$;
select trunkline._access('_broker_watch_columnwise(anyelement, text[])', 'writer');
