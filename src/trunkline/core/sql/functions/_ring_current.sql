/* The slot that takes rows now.  Read it in the statement that inserts. */
create or replace function trunkline._ring_current(ring text)
returns int language plpgsql stable as $$
begin
  return (select r.current from trunkline.ring r where r.ring = _ring_current.ring);
end $$;
