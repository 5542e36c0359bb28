/* Give resources whose names begin in one way names that begin in another.  Nobody owns them then, and their epochs go
   on: whoever owned one before is fenced under the new name too.  Waits for acknowledgements under way. */
create or replace function trunkline._owners_move(old_start text, new_start text)
returns void language sql as $$
  with moved as (delete from trunkline.owner o where starts_with(o.resource, old_start) returning o.resource, o.epoch)
  insert into trunkline.owner as o (resource, epoch, since)
  select new_start || substr(m.resource, length(old_start) + 1), m.epoch, clock_timestamp() from moved m
  on conflict on constraint owner_pkey do update
     set epoch = greatest(o.epoch, excluded.epoch), process = null, since = excluded.since;
$$;
