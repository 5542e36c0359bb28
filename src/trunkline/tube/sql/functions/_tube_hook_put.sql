/* Note that a table carries the triggers of an attachment. */
create or replace function trunkline._tube_hook_put(attachment int, relation regclass)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._tube_attachment_may($1, 'manage', own => true);
  insert into trunkline.tube_hook (attachment, relation) values ($1, $2) on conflict on constraint tube_hook_pkey do nothing;
$$;
select trunkline._access('_tube_hook_put(int, regclass)', 'writer');
