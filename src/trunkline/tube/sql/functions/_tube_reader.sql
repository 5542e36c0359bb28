/* The role as which the rows of an attached table are read, given what _tube_reading() gives; NULL: as the session is.  A session that is in its
   own role reads plain columns as any SELECT does.  It is held to the authors as soon as there is an expression of theirs, and always when
   it acts as another role: then it may read by order of a role that never saw the table.  Best it reads as the owner of the table, whose
   types and policies are code too.  Errors: TL403. */
create or replace function trunkline._tube_reader(attached trunkline.tube_table, authors name[], owner name)
returns name language plpgsql stable as $$
declare
  reader name;
begin
  if attached.relation is null
     or current_setting('role') = 'none' and attached.condition is null and attached.shard_expression is null then
    return null;
  end if;
  reader := trunkline._stored_role(authors, format('reading table %s for its tube', attached.relation_name), owner);
  return case when not trunkline._stored_plain(reader, authors || owner) then reader end;
end $$;
select trunkline._access('_tube_reader(trunkline.tube_table, name[], name)', 'reader');
