/* Make a table live: clients can subscribe to it.  It is watched, so that every write to it is an event; it needs a primary key.
   roles: these may subscribe, see live_allow().  columns: only these and the key are told.  A table that is watched already stays
   as it is: it must be watched as a whole, without a condition.
   You must own the table.  The same call again changes nothing but adds roles.
   Errors: TL403 not yours, TL404 no such role, TL409 watched otherwise or no lock, TL422. */
create or replace function trunkline.live_watch(relation regclass, roles name[] default '{}', columns text[] default null)
returns trunkline.live_table language plpgsql as $$
declare
  watched trunkline.broker_watched_table := trunkline._broker_watch_row(relation);
  present trunkline.live_table := trunkline._live_row(relation);
  ours boolean := watched.watch is null or present.made_watch is true;
begin
  if ours then
    watched := trunkline.broker_watch(relation, columns => columns);
  elsif watched.condition is not null or not watched.operations @> array['insert', 'update', 'delete', 'truncate'] then
    raise exception using errcode = 'TL409', message = format('%s is watched already, and not for every write.', relation),
      hint = 'Watch it without a condition and for all operations, or unwatch it first.';
  elsif columns is not null and watched.columns is distinct from array(select c.name from trunkline._broker_watch_columns(relation) c where c.name = any (live_watch.columns) order by c.place) then
    raise exception using errcode = 'TL409', message = format('%s is watched already, with other columns.', relation),
      hint = 'Leave columns out, or unwatch it first.';
  end if;
  if watched.key_columns = '{}' then
    raise exception using errcode = 'TL422', message = format('%s has no primary key to identify a changed row.', relation), hint = 'Add one.';
  end if;
  if present.history_from = 9223372036854775807 then  -- its triggers begin to mark what they write: nobody is within the former ones now
    perform trunkline._hook_lock(array[relation], 'share row exclusive', 'broker.watch');
  end if;
  present := trunkline._live_put(relation, ours, false);
  perform trunkline.live_allow(r) from unnest(roles) r;
  return present;
end $$;
comment on function trunkline.live_watch(regclass, name[], text[]) is 'Make a table live: clients can subscribe to it.';
select trunkline._access('live_watch(regclass, name[], text[])', 'writer');
