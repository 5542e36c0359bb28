/* An event that tells of a watched table says so by the number of the watch, which only the triggers of the table can set: they run as its
   owner, who alone sees the pass. */
alter table trunkline.event add column watch int;
comment on column trunkline.event.watch is 'The watch of the table that it tells of, said by the triggers of that table; NULL: it was published.';

create table trunkline.broker_watch_mark (
  watch int constraint broker_watch_mark_pkey primary key references trunkline.broker_watched_table on delete cascade,
  role name not null,
  pass uuid not null default gen_random_uuid(),
  topics text[] not null
);
comment on table trunkline.broker_watch_mark is 'How triggers of watched tables are known.';
comment on column trunkline.broker_watch_mark.role is 'As whom the triggers run: the owner of the table when it was watched.';
comment on column trunkline.broker_watch_mark.topics is 'What topics of its events begin with, also those of former names of the table.';
insert into trunkline.broker_watch_mark (watch, role, topics)
select w.watch, pg_get_userbyid(c.relowner), array[w.topic] from trunkline.broker_watched_table w join pg_catalog.pg_class c on c.oid = w.relation;

create view trunkline.broker_watch_pass with (security_barrier) as
  select m.watch, m.pass from trunkline.broker_watch_mark m
   where m.role = current_user  -- the rest is not asked then: triggers pay for it
      or pg_catalog.pg_has_role((select c.relowner from trunkline.broker_watched_table w join pg_catalog.pg_class c on c.oid = w.relation where w.watch = m.watch), 'usage');
comment on view trunkline.broker_watch_pass is 'The passes of tables of yours, for their triggers, also after table and triggers got another owner.';
grant select on trunkline.broker_watch_pass to public;

/* They got arguments or columns: what is made anew from their files must not stand beside what was there. */
drop function if exists trunkline._broker_capture(text, jsonb, text[], jsonb[], text[], jsonb[]);
drop function if exists trunkline._event_rows(bigint[]);
drop function if exists trunkline._broker_watch_take(text, boolean);
