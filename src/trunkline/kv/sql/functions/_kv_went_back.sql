/* Begin another incarnation, and with it another life, for a copy that went back. */
create or replace function trunkline._kv_went_back(before trunkline.kv_life)
returns void language plpgsql as $$
declare
  known trunkline.incarnation := trunkline._incarnation_row();
begin
  if known.incarnation = before.incarnation then
    perform trunkline._incarnation_begin(known);
  end if;
  perform trunkline._kv_life();
end $$;
