/* The dead letters of a partition that are not settled, as ranges of offsets: what the group dead-letters has not come to, and what
   is left of what it has, which it keeps as claims.  What has left with retention is not among them. */
create or replace function trunkline._log_dead_ranges(part trunkline.log_partition)
returns table (first_offset bigint, last_offset bigint, claim jsonb) language plpgsql as $$
declare
  seen trunkline.cursor := trunkline._cursor_latest((
    select k.cursor_id from trunkline.cursor_key k where k.resource = trunkline._log_resource(part.topic_id, 'dead-letters', part.partition)));
begin
  return query
    select greatest(c.first_offset, part.first_offset), c.last_offset, to_jsonb(c)
      from trunkline._log_claims(seen.state) c where c.last_offset >= part.first_offset;
  first_offset := greatest(coalesce(seen.up_to, 0) + 1, part.first_offset);
  last_offset := trunkline._log_tail(part);
  if first_offset <= last_offset then
    return next;
  end if;
end $$;
