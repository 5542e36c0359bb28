/* Refuse a reserved name for something that a user makes.  TL422. */
create or replace function trunkline._reserved_refuse(kind text, name text)
returns void language plpgsql immutable as $$
begin
  if trunkline._reserved_fault(kind, name) is not null then
    perform trunkline._raise('TL422', trunkline._reserved_fault(kind, name), 'Choose another name.', jsonb_build_object(kind, left(name, 80)));
  end if;
end $$;
