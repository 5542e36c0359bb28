/* Spark: which batch wrote what, and the tables where tasks put their rows until the driver moves them. */

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('spark.staging_retention', '1 day', '1 day', 'interval', '1 minute',
   'a staging table that no driver moved or dropped for this long is dropped by maintenance'),
  ('spark.ledger_retention', '90 days', '90 days', 'interval', '1 hour',
   'how long the ledger remembers a batch; the newest of every application stays');

create table trunkline.spark_ledger (
  app text not null,
  batch bigint not null,
  rows bigint not null,
  detail jsonb not null,
  at timestamptz not null default clock_timestamp(),
  constraint spark_ledger_pkey primary key (app, batch)
);
comment on table trunkline.spark_ledger is 'Batches that Spark wrote, each noted in the transaction of its rows.';
comment on column trunkline.spark_ledger.detail is 'target: what was written to; query: the id of the streaming query.';

create table trunkline.spark_staging (
  staging_id bigint generated always as identity constraint spark_staging_pkey primary key,
  kind text not null check (kind in ('rows', 'batches')),
  maker text not null,
  created_at timestamptz not null default clock_timestamp()
);
comment on table trunkline.spark_staging is 'Unlogged tables spark_staging_<staging_id> of tasks whose driver has not committed yet.';

/* The shape of staged record batches: ordinal is the order inside a task. */
create table trunkline.spark_batch (
  ordinal int not null,
  topic text not null,
  partition int not null,
  n int not null,
  codec smallint not null,
  value_ends bytea not null,
  payload bytea not null,
  value_valid bytea,
  key_ends bytea,
  keys bytea,
  key_valid bytea,
  headers bytea
);
alter table trunkline.spark_batch
  alter value_ends set storage external, alter payload set storage external, alter value_valid set storage external,
  alter key_ends set storage external, alter keys set storage external, alter key_valid set storage external,
  alter headers set storage external;
comment on table trunkline.spark_batch is 'The shape of staged record batches. Holds no rows itself.';
