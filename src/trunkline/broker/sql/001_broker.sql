/* The broker: events that belong to the transaction that published them, delivered to whoever asked by a condition.
   Events are numbered after commit by core/sequence; deliveries are numbered by the matcher, one after the other. */

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('broker.retention', '4 hours', '4 hours', 'interval', '0', 'how long events and deliveries stay when nobody waits for them'),
  ('broker.hold', '3 days', '3 days', 'interval', '0', 'how long they stay at most for a group that has not read them'),
  ('broker.lanes', '4', '4', 'int', '1', 'lanes of a group that is made without saying how many'),
  ('broker.match_events', '10000', '10000', 'int', '1', 'events that the matcher takes at once'),
  ('broker.condition_timeout', '1 second', '1 second', 'interval', '1 millisecond',
   'how long one condition may take over a hundred events before it is quarantined'),
  ('broker.condition_bytes', '10000', '10000', 'int', '1', 'how long the text of a condition may be'),
  ('broker.payload_bytes', '16777216', '16777216', 'int', '65536', 'how large a payload may be that is given to broker_publish()'),
  ('broker.abandoned_after', '30 days', '30 days', 'interval', '0', 'how long a group without any reader is kept');

/* event is the source of the sequence of the same name.  Whoever may insert names only the columns from topic to
   subscription: the others say when the event became part of the history.  What a topic and metadata may be is
   checked by _event_fault(). */
create sequence trunkline.event_seq;
create table trunkline.event (
  slot int not null,
  xid_space int not null,
  xid xid8 not null,
  seq bigint not null,
  topic text not null,
  key text,
  payload jsonb not null,
  metadata jsonb,
  subscription bigint,
  at timestamptz not null default clock_timestamp(),
  event_id bigint
) partition by list (slot);
create index event_place on trunkline.event (xid, seq);  -- unique as seq is: to check that would only cost
comment on table trunkline.event is 'Events. Publish with broker_publish(), or insert (topic, payload, key, metadata).';
comment on column trunkline.event.subscription is 'Deliver to this subscription alone, whatever its condition.';
comment on column trunkline.event.event_id is 'The id of an event that waited for its time; NULL: seq is the id.';

create table trunkline.event_due (
  event_id bigint constraint event_due_pkey primary key,
  deliver_at timestamptz not null,
  topic text not null,
  key text,
  payload jsonb not null,
  metadata jsonb,
  subscription bigint,
  at timestamptz not null default clock_timestamp()
);
create index event_due_deliver_at on trunkline.event_due (deliver_at);
comment on table trunkline.event_due is 'Events that wait for their time.';

create table trunkline.broker_topic (
  topic text constraint broker_topic_pkey primary key,
  key_order text not null check (key_order in ('committed', 'locked'))
);
comment on table trunkline.broker_topic is 'Topics with settings of their own.';

create table trunkline.broker_group (
  group_id int generated always as identity constraint broker_group_pkey primary key,
  group_name text not null constraint broker_group_name unique,
  lanes int not null check (lanes between 1 and 64),
  lasting boolean not null,
  begins_after bigint not null,
  trimmed_to bigint not null default 0,
  idle_since timestamptz,
  created_at timestamptz not null default clock_timestamp()
);
comment on table trunkline.broker_group is 'Groups: everybody in a group shares the work of its handlers.';
comment on column trunkline.broker_group.lasting is 'False: the group goes with its last subscription.';
comment on column trunkline.broker_group.begins_after is 'The last delivery that was numbered when the group was made.';
comment on column trunkline.broker_group.trimmed_to is 'The last delivery of the group that has left.';

create table trunkline.broker_condition (
  condition_id int generated always as identity constraint broker_condition_pkey primary key,
  kind text not null check (kind in ('sql', 'json')),
  condition text not null,
  digest bytea not null constraint broker_condition_digest unique,
  expression text not null,
  event_key text,
  subscription_key text,
  created_at timestamptz not null default clock_timestamp()
);
comment on table trunkline.broker_condition is 'Conditions, once each, as the server understood them.';
comment on column trunkline.broker_condition.event_key is 'Row expression over e that equals subscription_key wherever the condition holds: looked up by hash.';

/* What a part of the JSON form of a condition compiles to. */
create type trunkline.broker_condition_part as (expression text, constants jsonb, event_keys text[], subscription_keys text[]);

create table trunkline.broker_subscription (
  subscription bigint generated always as identity constraint broker_subscription_pkey primary key,
  group_id int not null references trunkline.broker_group on delete cascade,
  condition_id int not null references trunkline.broker_condition,
  params jsonb not null,
  digest bytea not null,
  given jsonb not null,
  key_hash bigint,
  from_position bigint not null,
  caught_up_to bigint,
  expiry interval,
  idle_since timestamptz,
  quarantined_at timestamptz,
  error text,
  error_position bigint,
  created_at timestamptz not null default clock_timestamp(),
  constraint broker_subscription_content unique (group_id, digest)
);
create index broker_subscription_key on trunkline.broker_subscription (condition_id, key_hash);
comment on table trunkline.broker_subscription is 'Who wants which events.';
comment on column trunkline.broker_subscription.given is 'The condition and params as they were given.';
comment on column trunkline.broker_subscription.caught_up_to is 'The last position of the history that was matched for it; NULL when it is matched with all others.';

create table trunkline.broker_holder (
  subscription bigint not null references trunkline.broker_subscription on delete cascade,
  process uuid not null,
  constraint broker_holder_pkey primary key (subscription, process)
);
comment on table trunkline.broker_holder is 'Processes that keep a subscription from expiring as long as their lease lasts.';

/* What a condition may name: e is an event, s a subscription.  Both tables stay empty: the matcher puts the events at hand
   and broker_subscription_live in their place. */
create table trunkline.broker_match_event (
  place int not null,
  event_position bigint not null,
  event_id bigint not null,
  topic text not null,
  key text,
  payload jsonb not null,
  metadata jsonb,
  at timestamptz not null,
  subscription bigint
);
comment on table trunkline.broker_match_event is 'The columns of an event that a condition may name as e. Always empty.';

create table trunkline.broker_match_subscription (
  subscription bigint not null,
  group_name text not null,
  params jsonb not null
);
comment on table trunkline.broker_match_subscription is 'The columns of a subscription that a condition may name as s. Always empty.';

-- a left join: it costs nothing where a condition does not name the group
create view trunkline.broker_subscription_live as
  select s.subscription, g.group_name, s.params, s.from_position, s.condition_id, s.key_hash
    from trunkline.broker_subscription s left join trunkline.broker_group g on g.group_id = s.group_id
   where s.quarantined_at is null and s.caught_up_to is null;
comment on view trunkline.broker_subscription_live is 'Subscriptions that are matched with all others.';

/* Deliveries: numbered one by one; a row holds those of one lane that one round of the matcher found. */
create table trunkline.delivery (
  slot int not null,
  group_id int not null,
  lane int not null,
  first bigint not null,
  n int not null,
  lowest bigint not null,
  positions bigint[] not null,
  subscriptions bigint[] not null,
  at timestamptz not null,
  constraint delivery_pkey primary key (group_id, lane, first, slot)
) partition by list (slot);
alter table trunkline.delivery alter positions set storage external;  -- rising numbers: compressing them takes longer than writing them
comment on table trunkline.delivery is 'Which events go to which subscriptions of a group; n deliveries from number first on.';
comment on column trunkline.delivery.lowest is 'The lowest of the positions: the event must stay as long as this is not read.';

create table trunkline.broker_handler (
  group_id int not null references trunkline.broker_group on delete cascade,
  handler text not null,
  subscriptions bigint[],
  ordering text not null default 'strict' check (ordering in ('strict', 'skip')),
  created_at timestamptz not null default clock_timestamp(),
  constraint broker_handler_pkey primary key (group_id, handler)
);
comment on table trunkline.broker_handler is 'Readers of a group, each with cursors of its own.';
comment on column trunkline.broker_handler.subscriptions is 'Only deliveries of these subscriptions, the last being the present one; NULL for all of the group.';

create table trunkline.broker_retry (
  retry bigint generated always as identity constraint broker_retry_pkey primary key,
  group_id int not null,
  handler text not null,
  lane int not null,
  delivery bigint not null,
  batch bigint,
  status text not null check (status in ('waiting', 'parked', 'dead')),
  attempts int not null,
  errors jsonb not null default '[]',
  due_at timestamptz,
  event_id bigint not null,
  event_position bigint not null,
  topic text not null,
  key text,
  payload jsonb not null,
  metadata jsonb,
  at timestamptz not null,
  subscriptions bigint[] not null,
  created_at timestamptz not null default clock_timestamp(),
  constraint broker_retry_handler foreign key (group_id, handler) references trunkline.broker_handler on delete cascade,
  constraint broker_retry_delivery unique (group_id, handler, lane, delivery)
);
create index broker_retry_due on trunkline.broker_retry (group_id, handler, lane, due_at) where status = 'waiting';
create index broker_retry_key on trunkline.broker_retry (group_id, handler, key, delivery);
comment on table trunkline.broker_retry is
  'Events that failed and wait for another try, events parked behind one of their key, and dead letters. They hold the event itself.';

create table trunkline.broker_trial (
  group_id int not null,
  handler text not null,
  lane int not null,
  delivery bigint not null,
  attempts int not null,
  constraint broker_trial_pkey primary key (group_id, handler, lane, delivery),
  constraint broker_trial_handler foreign key (group_id, handler) references trunkline.broker_handler on delete cascade
);
comment on table trunkline.broker_trial is 'Events that a lane tries alone, because the process before died over one of them, and how often.';
