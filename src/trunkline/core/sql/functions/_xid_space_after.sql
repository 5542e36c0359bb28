/* Which xids are comparable with those given out now, told from the latest incarnation: rows of a sequence carry it.
   Before the row of this life is noted, everybody computes the number that it will get.  It depends on the server, the
   database, the schema and the life before, so that no two lives share one.  An expression: part of whoever asks. */
create or replace function trunkline._xid_space_after(latest trunkline.incarnation)
returns int language sql stable as $$
  select case when (latest.system_identifier, latest.database, latest.schema)
                 = (trunkline._system_identifier(), trunkline._database_oid(), 'trunkline'::regnamespace::oid) then latest.xid_space
              else hashtext(format('%s %s %s %s', trunkline._system_identifier(), trunkline._database_oid(), 'trunkline'::regnamespace::oid,
                                   latest.incarnation)) end;
$$;
