/* _cursor_hold() locks and reads at once. */
drop function if exists trunkline._cursor_lock(bigint);
