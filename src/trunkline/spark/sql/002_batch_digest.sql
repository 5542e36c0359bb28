/* A batch is recognised by the digest of its rows: spark_commit() has more parameters. */

drop function if exists trunkline.spark_commit(text, bigint, bigint, text, text);
comment on column trunkline.spark_ledger.detail is
  'target: what was written to; query, run: the streaming query and its run; digest: of the rows, in any order.';
