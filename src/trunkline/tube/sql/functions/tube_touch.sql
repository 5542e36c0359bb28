/* Touch keys by hand: they are delivered as if their rows had changed.  A relation that is attached gives the shard;
   without one name the shard.  Keys are texts as tube_read() shows them: the column, or a JSON array of the columns;
   they are brought into the form that capture gives them, and duplicates are merged.  Returns how many keys.
   Errors: TL404, TL422. */
create or replace function trunkline.tube_touch(
  tube text, relation regclass, keys text[], payload jsonb default null, op text default 'T', shard int default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  attached trunkline.tube_table;
  touched text[];
begin
  perform trunkline._tube_may(present.tube, 'append');
  if current_setting('synchronous_commit') = 'off' then perform trunkline._durably(); end if;
  if relation is not null then
    attached := trunkline._tube_table_row(present.tube_id, relation);
    if attached.attachment is null then
      perform trunkline._raise('TL404', format('table %s is not attached to tube "%s".', relation, tube), 'Attach it with tube_attach().');
    end if;
  end if;
  if op is null or op not in ('I', 'U', 'D', 'T', 'B') then
    perform trunkline._raise('TL422', format('an operation is one of I, U, D, T, B, got %s.', coalesce('"' || left(op, 80) || '"', 'NULL')));
  elsif coalesce(shard, attached.shard) is null or shard < 0 then
    perform trunkline._raise('TL422', format('name the shard, a number from 0, got %s.', coalesce(shard::text, 'NULL')));
  end if;
  select array_agg(k.key order by k.place) into touched
    from (select u.key, min(u.place) as place from unnest(trunkline._tube_keys(attached, keys)) with ordinality u (key, place)
           where u.key is not null group by u.key) k;
  if touched is null then
    perform trunkline._raise('TL422', 'there is no key to touch.');
  end if;
  perform trunkline._tube_put_entries(present.tube_id, attached.attachment, coalesce(shard, attached.shard), null, touched, op, payload,
    case when op = 'B' then 1 else trunkline._tube_priority() end);
  return cardinality(touched);
end $$;
comment on function trunkline.tube_touch(text, regclass, text[], jsonb, text, int) is 'Touch keys by hand.';
select trunkline._access('tube_touch(text, regclass, text[], jsonb, text, int)', 'writer');
