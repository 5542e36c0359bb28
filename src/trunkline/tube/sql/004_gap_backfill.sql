/* Gaps are closed by themselves. */
insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('tube.gap_pause', '10 minutes', '10 minutes', 'interval', '0', 'how long after the end of a backfill the next gap of its table begins another');
