/* Events of a live table are those of its watch.  What they tell of a column is told by its name: history from before a column got another name, or
   left, is told to nobody.  Triggers of tables that are live already do not mark what they write until the tables are watched again: so long it is
   history, too. */
alter table trunkline.live_table drop column name, add column column_names jsonb not null default '{}',
  add column history_from bigint not null default 9223372036854775807;
alter table trunkline.live_table alter column_names drop default, alter history_from drop default;
comment on column trunkline.live_table.column_names is 'By their numbers, as they were when this was looked at last.';
comment on column trunkline.live_table.history_from is 'Events up to this id are from before a column got another name, or the table became live.';

/* They got arguments or columns: what is made anew from their files must not stand beside what was there. */
drop function if exists trunkline._live_column(regclass);
drop function if exists trunkline._live_value(jsonb, text);
drop function if exists trunkline._live_term(text, text, text, text, boolean, text, text[]);
drop function if exists trunkline.live_tables(regclass);
drop function if exists trunkline.live_access(regclass, name);
drop function if exists trunkline.live_read(bigint, uuid, bigint, int, int, bigint, bigint);
