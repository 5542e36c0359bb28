/* Say how the events of one key of a topic follow each other.  'committed' (as every topic is at first): what began
   after a commit comes after it.  'locked': also two transactions that overlap come in the order in which they
   published, because broker_publish() makes the second wait until the first has ended; a plain INSERT does not wait.
   Errors: TL422. */
create or replace function trunkline.broker_topic(topic text, key_order text)
returns trunkline.broker_topic language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  made trunkline.broker_topic;
begin
  if key_order is null or key_order not in ('committed', 'locked') then
    raise exception using errcode = 'TL422', message = format('key_order is committed or locked, got %s.', coalesce(to_json(key_order)::text, 'NULL'));
  elsif trunkline._event_fault(topic, null, null) is not null then
    raise exception using errcode = 'TL422', message = trunkline._event_fault(topic, null, null);
  end if;
  if exists (select from trunkline.broker_topic t where t.topic = $1) then
    perform trunkline._check_may('event_topic:' || topic, 'manage');
  end if;
  insert into trunkline.broker_topic as t (topic, key_order) values ($1, $2)
  on conflict on constraint broker_topic_pkey do update set key_order = excluded.key_order
  returning t.* into made;
  return made;
end $$;
comment on function trunkline.broker_topic(text, text) is 'Say how the events of one key of a topic follow each other.';
select trunkline._access('broker_topic(text, text)', 'writer');
