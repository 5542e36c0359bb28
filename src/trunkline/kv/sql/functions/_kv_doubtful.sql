/* Whether a key was last written in a life before, so that nobody here can know whether it was deleted meanwhile. */
create or replace function trunkline._kv_doubtful(entry trunkline.kv_entry, life trunkline.kv_life)
returns boolean language sql stable as $$
  select entry.xid_space <> life.xid_space or pg_visible_in_snapshot(entry.xid, life.snapshot);
$$;
