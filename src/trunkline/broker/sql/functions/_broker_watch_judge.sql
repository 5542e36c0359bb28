/* What is seen of one row, with your rights: its key, its image, and whether it meets the condition.  What fails does not count: a
   row whose condition fails is seen, one whose columns have changed their names is told by those it has, and by no key, and a
   column that JSON cannot hold by its text.  error says so. */
create or replace function trunkline._broker_watch_judge(it anyelement, key_ text, image_ text, condition text, columns text[],
  out key text, out image jsonb, out seen boolean, out error text)
language plpgsql as $$
begin
  begin
    execute format(E'select coalesce((%s\n), false) from (select ($1).*) r', condition) into seen using it;
  exception when others then
    seen := true;
    error := sqlerrm;
  end;
  begin
    execute format('select %s from (select ($1).*) r', key_) into key using it;
  exception when others then
    error := concat_ws('; ', error, sqlerrm);
  end;
  begin
    execute format('select %s from (select ($1).*) r', image_) into image using it;
  exception when others then
    error := concat_ws('; ', error, sqlerrm);
    image := trunkline._broker_watch_columnwise(it, columns);
  end;
end $$;
select trunkline._access('_broker_watch_judge(anyelement, text, text, text, text[])', 'writer');
