/* After the grants of a namespace changed: write the lists of _kv_guarded() again. */
create or replace function trunkline._kv_namespace_shared(namespace text)
returns void language plpgsql as $$
declare
  append text[];
  read text[];
begin
  perform trunkline._routines_lock();
  select coalesce(array_agg(s.name order by s.name) filter (where not s.append), '{}'), coalesce(array_agg(s.name order by s.name) filter (where not s.read), '{}') into append, read
    from (select o.name, exists (select from trunkline.object_grant g where g.object = o.object and g.privilege = 'append' and g.role = k.open_to ->> 'append') as append,
                 exists (select from trunkline.object_grant g where g.object = o.object and g.privilege = 'read' and g.role = k.open_to ->> 'read') as read
            from trunkline.object o join trunkline.object_kind k using (kind) where o.kind = 'namespace') s;
  if (append, read) is distinct from (trunkline._kv_guarded('append'), trunkline._kv_guarded('read')) then
    execute format('create or replace function trunkline._kv_guarded(privilege text) returns text[] language sql stable as %L',
      format('select case privilege when ''append'' then %L::text[] else %L::text[] end', append, read));
  end if;
end $$;
