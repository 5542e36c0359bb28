/* Who does the background work of the broker. */
insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('broker.schedule', 'services', 'services', 'text', null, 'who numbers, matches and forwards events: services, or pg_cron; change it with broker_schedule()'),
  ('broker.schedule_every', '1 second', '1 second', 'interval', '10 milliseconds', 'how often pg_cron looks for new events');
