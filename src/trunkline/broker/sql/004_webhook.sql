/* Webhooks: handlers of a group whose events are posted to a URL. */

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('broker.webhook_private', 'false', 'false', 'boolean', null,
   'whether webhooks may be sent to private, loopback and link-local addresses'),
  ('broker.webhook_gzip_bytes', '1024', '1024', 'int', '0', 'from which size on the body of a webhook is compressed'),
  ('broker.webhook_body_bytes', '1048576', '1048576', 'int', '1', 'how large the body of a webhook may be before its batch is split'),
  ('broker.webhook_failures', '5', '5', 'int', '1', 'failures in a row after which an endpoint is left alone for a while'),
  ('broker.webhook_log', '7 days', '7 days', 'interval', '0', 'how long the log of webhooks is kept'),
  ('broker.source', '', '', 'text', null, 'the source of events in CloudEvents; empty: made of the identifiers of server and database');

create table trunkline.broker_webhook (
  webhook bigint generated always as identity constraint broker_webhook_pkey primary key,
  group_id int not null references trunkline.broker_group on delete cascade,
  url text not null,
  format text not null check (format in ('standard', 'cloudevents')),
  headers jsonb not null,
  retry interval[] not null,
  timeout interval not null,
  batch int not null,
  concurrency int not null,
  identity uuid not null default gen_random_uuid(),
  paused_at timestamptz,
  paused_because text,
  created_at timestamptz not null default clock_timestamp()
);
create index broker_webhook_group on trunkline.broker_webhook (group_id);
comment on table trunkline.broker_webhook is 'Where events of a group are posted to; each is a handler "webhook:<number>" of its group.';
comment on column trunkline.broker_webhook.headers is 'Headers that go along; they may hold credentials and are not listed.';
comment on column trunkline.broker_webhook.identity is 'Makes the ids of its messages different from those of any other webhook anywhere.';

create table trunkline.broker_webhook_secret (
  webhook bigint not null references trunkline.broker_webhook on delete cascade,
  secret text not null,
  valid_until timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  constraint broker_webhook_secret_pkey primary key (webhook, secret)
);
comment on table trunkline.broker_webhook_secret is 'What webhooks are signed with.';
comment on column trunkline.broker_webhook_secret.valid_until is 'NULL for the present one; others sign along until then.';

/* One row per attempt; insert-only, leaves with its slot. */
create sequence trunkline.webhook_log_seq;
create table trunkline.webhook_log (
  slot int not null,
  entry bigint not null default nextval('trunkline.webhook_log_seq'),
  webhook bigint not null,
  at timestamptz not null,
  message text not null,
  event_ids bigint[] not null,
  attempt int not null,
  status int,
  milliseconds int not null,
  error text,
  answer text,
  constraint webhook_log_pkey primary key (webhook, entry, slot)
) partition by list (slot);
comment on table trunkline.webhook_log is 'What was sent to webhooks, and what they answered.';
comment on column trunkline.webhook_log.message is 'The header webhook-id, which is the idempotency key.';
comment on column trunkline.webhook_log.answer is 'The beginning of the body.';
