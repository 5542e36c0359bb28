/* The number of a cursor, made on first use. */
create or replace function trunkline._cursor_ensure(resource text)
returns bigint language plpgsql as $$
declare
  number bigint;
begin
  loop
    select k.cursor_id into number from trunkline.cursor_key k where k.resource = _cursor_ensure.resource;
    exit when found;
    insert into trunkline.cursor_key (resource) values (_cursor_ensure.resource)
    on conflict on constraint cursor_key_resource do nothing;
  end loop;
  return number;
end $$;
