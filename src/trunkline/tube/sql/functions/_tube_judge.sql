/* Evaluate shard and condition for one row, with your rights: what fails is wanted, and in shard 0. */
create or replace function trunkline._tube_judge(it anyelement, shard_ text, matches text, out shard int, out wanted boolean)
language plpgsql as $$
begin
  begin
    execute format('select exists (select from (select ($1).*) r where %s)', matches) into wanted using it;
  exception when others then
    wanted := true;
  end;
  begin
    execute format('select %s from (select ($1).*) r', shard_) into shard using it;
  exception when others then
    shard := 0;
  end;
end $$;
select trunkline._access('_tube_judge(anyelement, text, text)', 'reader');
