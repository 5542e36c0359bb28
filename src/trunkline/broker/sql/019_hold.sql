/* Lasting groups keep what they have not read without limit, unless the operator sets one by age or by size. */
update trunkline.config
   set value = case when value = default_value then '1000 years' else value end, default_value = '1000 years',
       description = 'how long events and deliveries stay at most for a group that has not read them; 1000 years: no limit'
 where name = 'broker.hold';
update trunkline.config
   set value = case when value = default_value then '1000 years' else value end, default_value = '1000 years',
       description = 'how long a group without any reader is kept; 1000 years: no limit'
 where name = 'broker.abandoned_after';
insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('broker.hold_bytes', '0', '0', 'bigint', '0',
   'how many bytes events and deliveries may take before the oldest leave that groups have not read; 0: no limit');

/* Deliveries of the history lie behind those of the round before them.  Among all others the lowest position of what is unread is that
   of the first that is unread.  Rows that are there count as late: how they were made is not known. */
alter table trunkline.delivery add column late boolean not null default true;
alter table trunkline.delivery alter column late set default false;
create index delivery_late on trunkline.delivery (group_id, lane, first) where late;
comment on column trunkline.delivery.late is 'Its positions may be lower than those of the delivery before it.';

/* They got an argument or columns: the functions that their files make must not stand beside the old ones. */
drop function if exists trunkline._match_deliver(bigint, bigint, int[], int[], bigint[]);
drop function if exists trunkline.broker_groups();
