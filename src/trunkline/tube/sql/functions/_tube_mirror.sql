/* Write the rows behind keys of an attached table into a table of documents in this database, as the downstream
   "postgres" does, without their leaving the server: one statement that reads, enriches and writes.  The version is
   that of before its snapshot; newer ones stay.  In the order of keys, so that two batches never deadlock.  A key may
   be given once.  Runs with your rights; documents are those of tube_enrich().  Errors: TL400 isolation, TL404, and those
   of reading and writing as they are. */
create or replace function trunkline._tube_mirror(attachment int, keys text[], shards int[], documents regclass)
returns void language plpgsql
set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
  attached trunkline.tube_table := trunkline._tube_attachment_present(attachment);
  version record;
begin
  perform trunkline._isolation_check('Mirroring');
  version := trunkline.tube_version();
  execute format($sql$
    insert into %s as t (relation, shard, key, document, version)
    select $3, k.shard, k.key, %s, ($4::bigint << 48) | (($5::pg_lsn - '0/0')::bigint & ((1::bigint << 48) - 1))
      from (select u.shard, u.key from unnest($1, $2) u (key, shard) order by u.shard, u.key) k
    on conflict (relation, shard, key) do update
       set document = excluded.document, version = excluded.version, written_at = clock_timestamp()
     where t.version <= excluded.version $sql$, documents, trunkline._tube_document(attached, true))
    using keys, shards, attached.relation_name, version.generation, version.lsn;
end $$;
select trunkline._access('_tube_mirror(int, text[], int[], regclass)', 'reader');
