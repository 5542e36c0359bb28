/* Who calls, in a function that runs with the rights of the owner: the role that was set, else the one that logged in. */
create or replace function trunkline._spark_maker()
returns text language sql stable as $$
  select coalesce(nullif(current_setting('role'), 'none'), session_user::text);
$$;
