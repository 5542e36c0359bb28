/* Note in the ledger that a batch of an application is written, in the transaction that writes it.
   Returns true if the caller is the first: write the rows.  Returns false if the batch was written before: write nothing.
   Of two concurrent callers the second waits for the first.
   A repeated batch has the same number, target, count of rows and digest.  Other rows under the same number are a
   TL409, because to skip them would lose them.  The exception is the newest batch of an application in another run of
   the same streaming query: its source offsets are the same, and some queries compute something else from them.
   Errors: TL409 another target, other rows, or a batch older than the ledger remembers; TL422 a value that is missing. */
create or replace function trunkline.spark_commit(
  app text, batch bigint, rows bigint, target text, query text default null, digest text default null, run text default null)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  noted trunkline.spark_ledger;
  forgotten_below bigint;
begin
  if coalesce(app, '') = '' or batch is null or rows is null or target is null then
    raise exception using errcode = 'TL422', message = 'app, batch, rows and target are needed.';
  end if;
  insert into trunkline.spark_ledger (app, batch, rows, detail)
  values (spark_commit.app, spark_commit.batch, spark_commit.rows,
          jsonb_strip_nulls(jsonb_build_object('target', target, 'query', query, 'digest', digest, 'run', run)))
  on conflict on constraint spark_ledger_pkey do nothing;
  if not found then
    select l.* into noted from trunkline.spark_ledger l
     where l.app = spark_commit.app and l.batch = spark_commit.batch;
    if noted.detail ->> 'target' <> target then
      raise exception using errcode = 'TL409', message = format('batch %s of "%s" was written to %s, now it is meant for %s.', batch, app, noted.detail ->> 'target', target),
        hint = 'Give every sink an appId of its own.';
    end if;
    if noted.rows = rows and coalesce(noted.detail ->> 'digest' = digest, true) then
      return false;
    end if;
    if noted.detail ->> 'query' = query and noted.detail ->> 'run' is distinct from run
       and not exists (select from trunkline.spark_ledger l
                        where l.app = spark_commit.app and l.batch > spark_commit.batch)
    then
      return false;
    end if;
    raise exception using errcode = 'TL409', message = format('batch %s of "%s" was written before with other rows: %s then, %s now. Nothing was written.',
             batch, app, trunkline._counted(noted.rows, 'row'), rows),
      hint = 'If the checkpoint was lost or replaced, use another appId and set startingOffsets to where the first query ended.'
      || ' In foreachBatch, give every write of a batch an appId of its own.', detail = jsonb_build_object('rows', noted.rows, 'now', rows)::text;
  end if;
  select min(l.batch) into forgotten_below from trunkline.spark_ledger l
   where l.app = spark_commit.app and l.batch > spark_commit.batch and l.detail ? 'floor';
  if forgotten_below is not null then
    raise exception using errcode = 'TL409', message = format('batch %s of "%s" is older than the ledger remembers, which is %s.', batch, app, forgotten_below),
      hint = 'Use another appId, or go back to the checkpoint that belongs to this one.', detail = jsonb_build_object('first', forgotten_below)::text;
  end if;
  return true;
end $$;
comment on function trunkline.spark_commit(text, bigint, bigint, text, text, text, text) is
  'Note a batch in the ledger; true when it is new and to be written in this transaction, false when it was written before.';
select trunkline._access('spark_commit(text, bigint, bigint, text, text, text, text)', 'writer');
