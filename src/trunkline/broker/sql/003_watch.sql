/* Watched tables: what is written to them becomes events, in the transaction that writes. */

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('broker.watch_patience', '30 seconds', '30 seconds', 'interval', '0', 'how long watching or unwatching a table tries to get its lock'),
  ('broker.watch_lock_timeout', '200 milliseconds', '200 milliseconds', 'interval', '1 millisecond',
   'how long one of these tries may make writers of the table wait');

create table trunkline.broker_watched_table (
  watch int generated always as identity constraint broker_watched_table_pkey primary key,
  relation regclass not null constraint broker_watched_table_relation unique,
  relation_name text not null,
  topic text not null,
  operations text[] not null,
  columns text[],
  key_columns text[] not null,
  condition text,
  fault text,
  watched_at timestamptz not null default clock_timestamp()
);
comment on table trunkline.broker_watched_table is 'Watched tables.';
comment on column trunkline.broker_watched_table.topic is 'What the topics of its events begin with: the name that the table had when it was watched, in lower case.';
comment on column trunkline.broker_watched_table.key_columns is 'The primary key; none: events have no key.';
