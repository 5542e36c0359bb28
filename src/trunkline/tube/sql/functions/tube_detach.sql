/* Stop capturing a table; a tube of NULL stands for all.  What is queued is still delivered.  You must own the table.
   Returns whether it was attached.  Errors: TL403, TL404, TL409 no lock, TL422. */
create or replace function trunkline.tube_detach(tube text, relation regclass)
returns boolean language plpgsql as $$
declare
  present trunkline.tube_table;
  leaving trunkline.tube_table[];
begin
  if relation is null then
    raise exception using errcode = 'TL422', message = 'name the table to detach.';
  elsif tube is not null then
    perform trunkline._tube_row(tube);
  end if;
  leaving := array(select trunkline._tube_table_row((trunkline._tube_row(l.tube)).tube_id, l.relation)
                     from trunkline.tube_list(tube_detach.relation) l where tube_detach.tube is null or l.tube = tube_detach.tube);
  if cardinality(leaving) = 0 then
    return false;
  end if;
  perform trunkline._tube_untrigger(leaving);
  foreach present in array leaving loop
    perform trunkline._tube_table_end(present.attachment);
  end loop;
  return true;
end $$;
comment on function trunkline.tube_detach(text, regclass) is 'Stop capturing a table; what is queued is still delivered.';
select trunkline._access('tube_detach(text, regclass)', 'writer');
