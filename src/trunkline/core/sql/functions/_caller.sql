/* The role that the session acts as: the one of SET ROLE if there is one, otherwise the one that logged in.  Inside a SECURITY DEFINER
   function current_user is the owner of that function, not the role that called it. */
create or replace function trunkline._caller()
returns name language sql stable as $$
  select coalesce(nullif(current_setting('role'), 'none'), session_user::text)::name;
$$;
