/* Refuse a reserved name for something that a user makes.  TL422. */
create or replace function trunkline._reserved_refuse(kind text, name text)
returns void language plpgsql immutable as $$
begin
  if trunkline._reserved_fault(kind, name) is not null then
    raise exception using errcode = 'TL422', message = trunkline._reserved_fault(kind, name),
      hint = 'Choose another name.', detail = jsonb_build_object(kind, left(name, 80))::text;
  end if;
end $$;
