/* Note in the ledger that a batch of an application is written, in the transaction that writes it.
   Returns true when the caller is the first: go on and write.  False: it was written before, write nothing.  Two
   callers at once: the second waits for the first.
   A batch is known again by its number, so the same number for something else must not pass as done: TL409 when it
   went to another target, or came from another query (its checkpoint was deleted) with another number of rows, or is
   older than the ledger remembers. */
create or replace function trunkline.spark_commit(app text, batch bigint, rows bigint, target text, query text default null)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  noted trunkline.spark_ledger;
  forgotten_below bigint;
begin
  if coalesce(app, '') = '' or batch is null or rows is null or target is null then
    perform trunkline._raise('TL422', 'app, batch, rows and target are needed.');
  end if;
  insert into trunkline.spark_ledger (app, batch, rows, detail)
  values (spark_commit.app, spark_commit.batch, spark_commit.rows, jsonb_strip_nulls(jsonb_build_object('target', target, 'query', query)))
  on conflict on constraint spark_ledger_pkey do nothing;
  if not found then
    select l.* into noted from trunkline.spark_ledger l where l.app = spark_commit.app and l.batch = spark_commit.batch;
    if noted.detail ->> 'target' <> target then
      perform trunkline._raise('TL409', format('batch %s of "%s" was written to %s, now it is meant for %s.', batch, app, noted.detail ->> 'target', target),
        'Give every sink an appId of its own.');
    elsif noted.detail ->> 'query' is distinct from query and noted.rows <> rows then
      perform trunkline._raise('TL409', format('batch %s of "%s" was written by another query with %s, now it has %s.', batch, app, trunkline._counted(noted.rows, 'row'), rows),
        'After a deleted checkpoint batches are the same only if they are cut in the same places. Use another appId, or start where the first query ended.',
        jsonb_build_object('rows', noted.rows, 'now', rows));
    end if;
    return false;
  end if;
  select min(l.batch) into forgotten_below from trunkline.spark_ledger l
   where l.app = spark_commit.app and l.batch > spark_commit.batch and l.detail ? 'floor';
  if forgotten_below is not null then
    perform trunkline._raise('TL409', format('batch %s of "%s" is older than the ledger remembers, which is %s.', batch, app, forgotten_below),
      'Use another appId, or go back to the checkpoint that belongs to this one.', jsonb_build_object('first', forgotten_below));
  end if;
  return true;
end $$;
comment on function trunkline.spark_commit(text, bigint, bigint, text, text) is
  'Note a batch in the ledger; true when it is new and to be written in this transaction, false when it was written before.';
select trunkline._access('spark_commit(text, bigint, bigint, text, text)', 'writer');
