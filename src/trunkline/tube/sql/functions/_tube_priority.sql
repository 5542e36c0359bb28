/* 1 for backfill: the session is named so or says so; 0 for live. */
create or replace function trunkline._tube_priority()
returns int language sql stable as $$
  select (current_setting('application_name') like '%backfill%' or coalesce(current_setting('trunkline.priority', true), '') = 'backfill')::int;
$$;
