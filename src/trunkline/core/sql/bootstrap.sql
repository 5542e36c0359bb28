create schema if not exists trunkline;
create table if not exists trunkline.migration (
  capability text not null,
  file text not null,
  checksum text not null,
  version text not null,
  applied_at timestamptz not null default clock_timestamp(),
  constraint migration_pkey primary key (capability, file)
);
comment on table trunkline.migration is 'Files of the schema that were applied, and by which release.';
