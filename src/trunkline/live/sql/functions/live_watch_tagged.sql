/* Make tables live whose comment has "@behaviour +subscribable" in it, and those live no longer that were so only by their
   comment and have lost it.  Only tables that the caller may act for.  Returns the tables that changed. */
create or replace function trunkline.live_watch_tagged()
returns table (relation regclass, live boolean) language plpgsql as $$
begin
  for relation in
    select c.oid from pg_class c join pg_description d on d.objoid = c.oid and d.classoid = 'pg_class'::regclass and d.objsubid = 0
     where c.relkind in ('r', 'p') and not c.relispartition and d.description ~* E'@behaviou?r\\s[^\\n]*\\+subscribable\\M'
       and pg_has_role(c.relowner, 'usage') and (trunkline._live_row(c.oid::regclass)).relation is null order by c.oid
  loop
    perform trunkline.live_watch(live_watch_tagged.relation);
    perform trunkline._live_tag(live_watch_tagged.relation);
    live := true;
    return next;
  end loop;
  for relation in
    select t.relation from trunkline._live_tagged() t join pg_class c on c.oid = t.relation
     where pg_has_role(c.relowner, 'usage') and coalesce(obj_description(c.oid, 'pg_class'), '') !~* E'@behaviou?r\\s[^\\n]*\\+subscribable\\M'
  loop
    perform trunkline.live_unwatch(live_watch_tagged.relation);
    live := false;
    return next;
  end loop;
end $$;
comment on function trunkline.live_watch_tagged() is 'Make tables live whose comment says so.';
select trunkline._access('live_watch_tagged()', 'writer');
