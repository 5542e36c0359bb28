/* Make the session's tables for one round of matching, if they are not there: the events at hand, and what was found.
   They are emptied at every commit.  A table of the same name that somebody else made is refused. */
create or replace function trunkline._match_prepare()
returns void language plpgsql as $$
declare
  name text;
  maker oid;
begin
  foreach name in array array['trunkline_batch', 'trunkline_found'] loop
    select c.relowner into maker from pg_class c where c.oid = to_regclass('pg_temp.' || name);
    if not found then
      if name = 'trunkline_batch' then
        create temp table trunkline_batch (like trunkline.broker_match_event, lane_bucket int not null) on commit delete rows;
        if exists (select from pg_roles r where r.rolname = 'trunkline_matcher') then
          grant select on pg_temp.trunkline_batch to trunkline_matcher;
        end if;
      else
        create temp table trunkline_found (place int not null, subscription bigint not null) on commit delete rows;
      end if;
    elsif maker <> current_user::regrole then
      perform trunkline._raise('TL403', format('this session has a table pg_temp.%s that is not ours.', name), 'Use another session.');
    end if;
  end loop;
  delete from pg_temp.trunkline_batch;
  delete from pg_temp.trunkline_found;
end $$;
