/* Write the rows behind keys of an attached table into a table of documents in this database, as the downstream
   "postgres" does, without their leaving the server: one statement that reads, enriches and writes.  The version is
   that of before its snapshot; newer ones stay.  In the order of keys, so that two batches never deadlock.  A key may
   be given once.  Runs with your rights; TL403 when the rows have to be read as another role, see _tube_reader(); documents are those of tube_enrich().
   Errors: TL400 isolation, TL403, TL404, and those of reading and writing as they are. */
create or replace function trunkline._tube_mirror(attachment int, keys text[], shards int[], documents regclass)
returns void language plpgsql
set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
  reading record := trunkline._tube_reading(attachment);
  attached trunkline.tube_table := reading.attached;
  reader name := trunkline._tube_reader(attached, reading.authors, reading.owner);
  owner name := (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = documents);
  written text;
  version record;
begin
  perform trunkline._isolation_check('Mirroring');
  version := trunkline.tube_version();
  written := format($sql$
    insert into %s as t (relation, shard, key, document, version)
    select %L, k.shard, k.key, %s, %s
      from (select u.shard, u.key from unnest($1, $2) u (key, shard) order by u.shard, u.key) k
    on conflict (relation, shard, key) do update
       set document = excluded.document, version = excluded.version, written_at = clock_timestamp()
     where t.version <= excluded.version $sql$, trunkline._hook_name(documents), attached.relation_name, trunkline._tube_document(attached, true),
    (version.generation::bigint << 48) | ((version.lsn::pg_lsn - '0/0')::bigint & ((1::bigint << 48) - 1)));
  if reader is null and not trunkline._stored_plain(current_user, array[owner]) then
    reader := current_user;  -- triggers and policies of the documents are code of their owner
  end if;
  if reader is null then
    execute written using keys, shards;
  elsif reader <> current_user then
    raise exception using errcode = 'TL403', message = format('the rows of %s are read as %I, the documents are written as %I.', attached.relation_name, reader, current_user);
  else
    perform trunkline._run_as(reader, format('with w as (%s returning 1) select null::text[], null::text[], null::int[], count(*) from w', written),
      keys, shards, keep => true);
  end if;
end $$;
select trunkline._access('_tube_mirror(int, text[], int[], regclass)', 'reader');
