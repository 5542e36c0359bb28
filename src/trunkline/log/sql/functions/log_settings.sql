/* The settings of a topic, for clients that route keys themselves.  TL404 when there is none. */
create or replace function trunkline.log_settings(topic text)
returns trunkline.log_topic language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._log_topic_row(topic);
$$;
comment on function trunkline.log_settings(text) is 'The settings of a topic.';
select trunkline._access('log_settings(text)', 'reader');
