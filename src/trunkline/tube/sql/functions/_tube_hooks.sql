/* Tables that got the triggers of an attachment; some may be gone. */
create or replace function trunkline._tube_hooks(attachment int)
returns setof regclass language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select h.relation from trunkline.tube_hook h where h.attachment = $1;
$$;
select trunkline._access('_tube_hooks(int)', 'reader');
