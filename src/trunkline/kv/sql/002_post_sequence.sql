/* The ring of changes, numbered after commit. */
select trunkline._sequence_create('kv_change', '_kv_keep_from');
