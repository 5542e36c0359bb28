/* The log: topics, partitions, segments, groups.  Messages live in segment tables shaped like log_batch. */

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('log.message_bytes', '8388608', '8388608', 'int', '1', 'largest message that log_append takes'),
  ('log.batch_bytes', '67108864', '67108864', 'int', '1', 'largest record batch that is stored'),
  ('log.segment_bytes', '268435456', '268435456', 'bigint', '8192', 'a segment that is larger is sealed by maintenance'),
  ('log.segment_age', '1 day', '1 day', 'interval', '1 millisecond', 'a segment that is older is sealed by maintenance'),
  ('log.tombstone_retention', '1 day', '1 day', 'interval', '0', 'how long compaction keeps a null value'),
  ('log.max_claims', '256', '256', 'int', '1', 'claims that one group may have in flight on one partition');

create table trunkline.log_topic (
  topic_id int generated always as identity constraint log_topic_pkey primary key,
  topic text not null constraint log_topic_name unique,
  partitions int not null,
  retention interval,
  retention_bytes bigint,
  compact boolean not null,
  codec text not null,
  early_release boolean not null,
  created_at timestamptz not null default clock_timestamp()
);
comment on table trunkline.log_topic is 'Topics and their settings.';

/* The static row of a partition: locked by appends, updated only when a segment is added or trimmed. */
create table trunkline.log_partition (
  topic_id int not null references trunkline.log_topic on delete cascade,
  partition int not null,
  first_offset bigint not null default 1,
  segment_id bigint not null,
  segment_first bigint not null,
  segment_at timestamptz not null,
  previous_id bigint,
  constraint log_partition_pkey primary key (topic_id, partition)
);
comment on table trunkline.log_partition is 'Partitions: the row that appends lock.';
comment on column trunkline.log_partition.first_offset is 'The floor: lower offsets left with retention.';

/* topic_id is NULL when the segment has left the log and only waits to be dropped. */
create table trunkline.log_segment (
  segment_id bigint generated always as identity constraint log_segment_pkey primary key,
  topic_id int,
  partition int,
  first_offset bigint not null,
  last_offset bigint,
  created_at timestamptz not null default clock_timestamp(),
  last_at timestamptz,
  bytes bigint,
  compacted_at timestamptz
);
create index log_segment_range on trunkline.log_segment (topic_id, partition, first_offset);
comment on table trunkline.log_segment is 'Segments: plain tables log_segment_<segment_id>. last_offset is set when sealed.';

/* The shape of a segment and of a record batch.  Format 1 is frozen: docs/reference/record-batch.md. */
create table trunkline.log_batch (
  base_offset bigint not null,
  last_offset bigint not null,
  at timestamptz not null,
  producer_id uuid,
  producer_seq bigint,
  n int not null,
  incarnation int not null,
  format smallint not null,
  codec smallint not null,
  value_ends bytea not null,
  payload bytea not null,
  value_valid bytea,
  key_ends bytea,
  keys bytea,
  key_valid bytea,
  deltas bytea,
  event_ids bytea,
  headers bytea,
  primary key (base_offset)
) with (autovacuum_analyze_scale_factor = 0.2);
create unique index on trunkline.log_batch (producer_id, producer_seq) where producer_id is not null;
alter table trunkline.log_batch
  alter value_ends set storage external, alter payload set storage external, alter value_valid set storage external,
  alter key_ends set storage external, alter keys set storage external, alter key_valid set storage external,
  alter deltas set storage external, alter event_ids set storage external, alter headers set storage external;
comment on table trunkline.log_batch is 'The shape of a record batch, and of every segment. Holds no rows itself.';

create table trunkline.log_group (
  topic_id int not null references trunkline.log_topic on delete cascade,
  group_name text not null,
  mode text not null check (mode in ('assigned', 'shared')),
  created_at timestamptz not null default clock_timestamp(),
  constraint log_group_pkey primary key (topic_id, group_name)
);
comment on table trunkline.log_group is 'Consumer groups.';
