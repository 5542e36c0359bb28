/* One text message, for psql and scripts. */
create or replace function trunkline.log_append_text(topic text, message text, key text default null, headers jsonb default null)
returns table (to_partition int, first_offset bigint, last_offset bigint)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select * from trunkline.log_append(topic, null, array[convert_to(message, 'UTF8')],
    case when key is not null then array[convert_to(key, 'UTF8')] end, case when headers is not null then array[headers] end);
$$;
comment on function trunkline.log_append_text(text, text, text, jsonb) is 'Append one text message.';
select trunkline._access('log_append_text(text, text, text, jsonb)', 'writer');
