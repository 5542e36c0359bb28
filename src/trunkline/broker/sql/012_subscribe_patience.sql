/* How long whoever subscribes waits for another who has not committed the same. */
insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('broker.subscribe_patience', '10 seconds', '10 seconds', 'interval', '1 millisecond',
   'how long broker_subscribe() waits for open transactions that make the same condition, group, subscription or handler');
