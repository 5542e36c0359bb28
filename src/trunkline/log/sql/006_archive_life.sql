/* Which lives of the server wrote an archived segment: after a failover that may be several. */
create table trunkline.log_archive_life (
  topic_id int not null,
  partition int not null,
  first_offset bigint not null,
  begins bigint not null,
  incarnation int not null,
  constraint log_archive_life_pkey primary key (topic_id, partition, first_offset, begins),
  constraint log_archive_life_archive foreign key (topic_id, partition, first_offset) references trunkline.log_archive on delete cascade
);
comment on table trunkline.log_archive_life is 'Where each life of the server began to write an archived segment. Segments that were archived before this table have no rows.';
