/* The statements that do the same after an expression failed: every row is asked by itself, so that the others keep
   their answer; one that fails is touched, in shard 0 if it was the shard. */
create or replace function trunkline._tube_look_each(attached trunkline.tube_table, matches text)
returns text language sql stable as $$
  select format($text$
    declare
      image text;
      one record;
      wanted boolean;
      shard int;
    begin
    shards := '{}';
    keys := '{}';
    foreach image in array case tg_op when 'INSERT' then array['new_rows'] when 'DELETE' then array['old_rows'] else array['old_rows', 'new_rows'] end loop
      for one in execute format(%L, tg_relid::regclass, image) loop
        begin
          execute %L into wanted using one.it;
        exception when others then
          wanted := true;
        end;
        begin
          execute %L into shard using one.it;
        exception when others then
          shard := 0;
        end;
        if wanted then
          shards := shards || shard;
          keys := keys || one.key;
        end if;
      end loop;
    end loop;
    select case when %L then array_agg(t.shard) end, array_agg(t.key) into shards, keys
      from (select distinct u.shard, u.key from unnest(shards, keys) u (shard, key)) t;
    end;$text$,
    'select r.*::%s as it, ' || replace(trunkline._hook_key(attached.key_columns, attached.key_types), '%', '%%') || ' as key from %I r',
    'select exists (select from (select ($1).*) r' || coalesce(' where ' || matches, '') || ')',
    'select ' || trunkline._tube_shard(attached) || ' from (select ($1).*) r',
    attached.shard_expression is not null);
$$;
select trunkline._access('_tube_look_each(trunkline.tube_table, text)', 'writer');
