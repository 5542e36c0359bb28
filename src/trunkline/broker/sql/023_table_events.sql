/* Events of watched tables are for roles that may read the table.  Where tables are watched already, readers go on seeing them until an admin
   changes this. */
insert into trunkline.config (name, value, default_value, type, minimum, description)
values ('broker.watch_open', exists (select from trunkline.broker_watched_table)::text, 'false', 'boolean', null,
  'whether every reader sees the events of watched tables; otherwise only roles that may SELECT the whole table, without row-level security');
alter table trunkline.broker_retry add column watch int;
comment on column trunkline.broker_retry.watch is 'The watch of the table that the event tells of; NULL: it was published.';
