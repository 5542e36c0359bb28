/* Trigger: a topic of the log was deleted; its cursor must not hold events back. */
create or replace function trunkline._broker_forward_end()
returns trigger language plpgsql as $$
begin
  delete from trunkline.cursor_key k where k.resource = trunkline._broker_forward_resource(old.topic_id);
  return null;
end $$;
