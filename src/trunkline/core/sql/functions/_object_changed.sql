/* Call the function of a kind after the owner or the grants of an object changed. */
create or replace function trunkline._object_changed(kind text, name text)
returns void language plpgsql as $$
declare
  changed text := (select k.changed from trunkline.object_kind k where k.kind = _object_changed.kind);
begin
  if changed is not null then
    execute format('select trunkline.%I($1)', changed) using name;
  end if;
end $$;
