/* A write was let through although it could not be captured. */
create or replace function trunkline._tube_note_gap(attachment int, error text)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into trunkline.tube_gap (attachment, error) values ($1, left($2, 1000));
$$;
select trunkline._access('_tube_note_gap(int, text)', 'public');
