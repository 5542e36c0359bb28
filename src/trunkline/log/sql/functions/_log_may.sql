/* Refuse what the role that the session acts as may not do with a topic: TL404 without the topic, TL403 without one of the privileges. */
create or replace function trunkline._log_may(topic text, variadic privileges text[])
returns void language plpgsql stable as $$
begin
  if not trunkline._may('topic:' || topic, privileges, trunkline._caller()) then
    perform trunkline._log_topic_row(topic);
    perform trunkline._check_may('topic:' || topic, variadic privileges);
  end if;
end $$;
