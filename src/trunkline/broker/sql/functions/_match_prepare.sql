/* Make the session's table for one round of matching, if it is not there: the events at hand.  It is emptied at every
   commit.  A table of the same name that somebody else made is refused. */
create or replace function trunkline._match_prepare()
returns void language plpgsql as $$
declare
  maker oid := (select c.relowner from pg_class c where c.oid = to_regclass('pg_temp.trunkline_batch'));
begin
  if maker is null then
    create temp table trunkline_batch (like trunkline.broker_match_event) on commit delete rows;
    if exists (select from pg_roles r where r.rolname = 'trunkline_matcher') then
      grant select on pg_temp.trunkline_batch to trunkline_matcher;
    end if;
  elsif maker <> current_user::regrole then
    raise exception using errcode = 'TL403', message = 'this session has a table pg_temp.trunkline_batch that is not ours.', hint = 'Use another session.';
  end if;
  delete from pg_temp.trunkline_batch;
end $$;
