/* Tables that roles may insert into directly; roles_grant() makes it so. */
create table trunkline.access_insert (
  relation text constraint access_insert_pkey primary key,
  columns text[] not null,
  numbers text not null,
  role text not null check (role in ('reader', 'writer', 'admin'))
);
comment on table trunkline.access_insert is 'Which role may insert which columns of a table, and draw its numbers. roles_grant() makes it so.';
