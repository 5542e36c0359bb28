/* The role that writes documents into a table: its owner if author and caller may act as it, else the caller if the author may act as it, else the
   author; and whether the session may write them as it is, because the roles with code at the table may act as it.  Errors: TL403. */
create or replace function trunkline._tube_writer(author name, documents text, out writer name, out plain boolean)
language plpgsql stable as $$
declare
  owner name;
begin
  perform trunkline._stored_role(array[author], format('the downstream %s', documents));
  owner := (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = to_regclass(documents));
  writer := trunkline._stored_role(array[author], format('the downstream %s', documents), owner);
  plain := trunkline._stored_plain(writer, array_remove(array[author, owner], null));
end $$;
select trunkline._access('_tube_writer(name, text)', 'reader');
