/* TL403 unless the role that the session acts as may act for the owner of a table: asked where functions run as the owner of the schema and do
   not know for whom.  A table that is gone is nobody's. */
create or replace function trunkline._broker_watch_may(relation regclass)
returns void language plpgsql stable as $$
declare
  owner regrole := (select c.relowner from pg_class c where c.oid = relation);
begin
  if not pg_has_role(trunkline._caller(), owner, 'member') then
    raise exception using errcode = 'TL403', message = format('table %s belongs to %s, for whom %s may not act.', relation, owner, quote_ident(trunkline._caller()));
  end if;
end $$;
