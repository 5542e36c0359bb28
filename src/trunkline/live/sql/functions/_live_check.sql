/* TL409 where columns of a live table have other names than those under which the event oldest, and what came after it, tell of them. */
create or replace function trunkline._live_check(relation regclass, oldest bigint default null)
returns void language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  if trunkline._live_renamed(relation) or exists (select from trunkline.live_table t where t.relation = $1 and t.history_from >= oldest) then
    raise exception using errcode = 'TL409', message = format('a column of table %s was renamed or dropped: changes from before cannot be delivered.', relation),
      hint = 'Load the rows and subscribe again.';
  end if;
end $$;
select trunkline._access('_live_check(regclass, bigint)', 'reader');
