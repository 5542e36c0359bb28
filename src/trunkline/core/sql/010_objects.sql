/* Objects: what roles own and share.  Each capability declares its kinds, and a trigger keeps the list of its objects. */
insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('objects.open', 'true', 'true', 'boolean', null,
   'whether new objects give the default privileges of their kind to trunkline_reader and trunkline_writer');

create table trunkline.object_kind (
  kind text constraint object_kind_pkey primary key,
  privileges text[] not null,
  open_to jsonb not null,
  changed text
);
comment on table trunkline.object_kind is
  'Kinds of objects: their privileges, which of them a new object gives to which role where objects.open is true, and the function to call with the name of an object after its grants changed.';

create table trunkline.object (
  object text constraint object_pkey primary key,
  kind text not null,
  name text not null,
  owner name,
  created_at timestamptz not null default clock_timestamp()
);
create index object_kind_name on trunkline.object (kind, name);
comment on table trunkline.object is 'What has an owner: "kind:name". owner is NULL for an object that is older than this table.';

create table trunkline.object_grant (
  object text not null references trunkline.object on update cascade on delete cascade,
  privilege text not null,
  role name not null,
  granted_by name not null,
  granted_at timestamptz not null default clock_timestamp(),
  constraint object_grant_pkey primary key (object, privilege, role)
);
comment on table trunkline.object_grant is 'Privileges on objects that roles have beside the owner.';

/* How much a role may write.  Two sequences hold, in microseconds, the time until which its quota is used up:
   quota_<quota_id>_messages and quota_<quota_id>_bytes.  Nothing is locked and no row is written. */
create table trunkline.quota (
  quota_id int generated always as identity constraint quota_pkey primary key,
  role name not null constraint quota_role unique,
  messages_per_second bigint,
  bytes_per_second bigint
);
comment on table trunkline.quota is 'How many messages and bytes a role may append and publish in a second.';
