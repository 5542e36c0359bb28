/* The ring of entries, numbered after commit.  A tick's tag tells tube, priority and shard. */
select trunkline._sequence_create('tube_entry', '_tube_keep_from',
  tag => '((r.tube_id::bigint << 32) | (r.priority::bigint << 31) | r.shard)');
