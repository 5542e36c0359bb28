/* Events that are too large to be messages of the log: they are set aside, and hold up nothing behind them. */
insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('broker.forward_bytes', '268435456', '268435456', 'int', '65536',
   'how large an event may be as JSON that is forwarded into the log; larger ones are set aside');

create table trunkline.broker_forward_aside (
  event_id bigint not null,
  topic_id int not null constraint broker_forward_aside_topic references trunkline.log_topic on delete cascade,
  event_position bigint not null,
  key text,
  payload jsonb not null,
  metadata jsonb,
  at timestamptz not null,
  error text not null,
  aside_at timestamptz not null default clock_timestamp(),
  constraint broker_forward_aside_pkey primary key (topic_id, event_position)
);
comment on table trunkline.broker_forward_aside is 'Events that were too large to be forwarded into the log. It holds the event itself.';
