/* The archive: sealed segments that were copied to files, and topics that ask for it. */

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('log.archived_retention', '1 day', '1 day', 'interval', '0', 'how long a segment stays in the database after it was archived');

alter table trunkline.log_topic add column archive boolean not null default false;

alter table trunkline.log_partition add column archived_from bigint not null default 1;
comment on column trunkline.log_partition.archived_from is 'Lower offsets were trimmed: what the archive holds of them does not count.';

create table trunkline.log_archive (
  topic_id int not null references trunkline.log_topic on delete cascade,
  partition int not null,
  first_offset bigint not null,
  last_offset bigint not null,
  messages bigint not null,
  bytes bigint not null,
  location text not null,
  format text not null,
  files jsonb not null,
  checksum text not null,
  incarnation int not null,
  segment_id bigint not null,
  last_at timestamptz not null,
  at timestamptz not null default clock_timestamp(),
  constraint log_archive_pkey primary key (topic_id, partition, first_offset),
  constraint log_archive_last unique (topic_id, partition, last_offset)
);
comment on table trunkline.log_archive is 'The manifest of the archive: a row per segment that was copied to files.';
comment on column trunkline.log_archive.incarnation is 'Which life of the server wrote the last message.';
comment on column trunkline.log_archive.last_at is 'When the last message was appended.';

/* Their arguments or answers grew: what is made anew from its file must not stand beside what was there. */
drop function if exists trunkline.log_create(text, int, interval, bigint, boolean, text, boolean);
drop function if exists trunkline.log_alter(text, int, interval, bigint, boolean, text, boolean);
drop function if exists trunkline.log_claim(text, text, int, int, interval, int, uuid, text);
drop function if exists trunkline._log_claim(text, text, int, int, interval, int, uuid, timestamptz);
drop function if exists trunkline.log_describe(text);
drop function if exists trunkline.log_list();
