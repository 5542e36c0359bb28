/* The xid space of now, for statements that are planned once.  Declared immutable so that a cached plan holds it: a plan lives
   no longer than its session, and a session sees one life of the server, whose number is the same before and after it is noted. */
create or replace function trunkline._xid_space_held()
returns int language plpgsql immutable as $$
begin
  return trunkline._xid_space();
end $$;
