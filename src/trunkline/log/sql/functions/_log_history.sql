/* Which topic bears a name, and the latest life of the server that is known: while both are the same, an offset that was
   read before still holds what it held.  A life is known from its first append on; before that nothing differs.  TL404. */
create or replace function trunkline._log_history(topic text)
returns table (topic_id int, incarnation int) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select (trunkline._log_topic_row(topic)).topic_id, (select coalesce(max(i.incarnation), 0) from trunkline.incarnation i);
$$;
select trunkline._access('_log_history(text)', 'reader');
