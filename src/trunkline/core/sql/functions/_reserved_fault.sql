/* Say why a user may not make something of this name: names that start with "trunkline." are reserved.  NULL when it is
   allowed. */
create or replace function trunkline._reserved_fault(kind text, name text)
returns text language sql immutable as $$
  select case when starts_with(name, 'trunkline.') then format('names that start with "trunkline." are reserved, got %s %s.', kind, to_json(left(name, 80))) end;
$$;
select trunkline._access('_reserved_fault(text, text)', 'reader');
