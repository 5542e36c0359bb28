/* Note a gap that lasts, and only once. */
create or replace function trunkline._tube_note_once(attachment int, error text)
returns void language plpgsql as $$
begin
  if not exists (select from trunkline.tube_gap g where g.attachment = _tube_note_once.attachment and g.error = _tube_note_once.error) then
    perform trunkline._tube_note_gap(attachment, error);
  end if;
end $$;
