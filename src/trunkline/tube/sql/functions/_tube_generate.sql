/* Write the capture function of an attachment: in the schema of the table, for the table's owner, running as whoever
   writes.  Expressions of users are evaluated there; only the result goes through _tube_capture().  An expression
   that fails touches anyway; with on_error 'gap' a capture that fails lets the write through and notes it. */
create or replace function trunkline._tube_generate(tube trunkline.tube, attached trunkline.tube_table)
returns text language plpgsql as $$
declare
  place text := trunkline._tube_function_name(attached);
  key text;
  shard text := coalesce('greatest(coalesce((' || attached.shard_expression || E'\n)::int, 0), 0)', 'null::int');
  matches text := concat_ws(' and ', '(' || tube.condition || E'\n)', '(' || attached.condition || E'\n)');
  look text;
  plain text;
  capture text := format('perform trunkline._tube_capture(%s, tg_op, shards, keys);', attached.attachment);
begin
  key := case when cardinality(attached.key_columns) = 1 then format('r.%I::text', attached.key_columns[1])
              else format('jsonb_build_array(%s)::text', (select string_agg(format('r.%I', c), ', ' order by i) from unnest(attached.key_columns) with ordinality u (c, i))) end;
  look := format($text$
    if tg_op = 'INSERT' then
      select array_agg(t.shard), array_agg(t.key) into shards, keys from (select distinct %1$s as shard, %2$s as key from new_rows r%3$s) t;
    elsif tg_op = 'DELETE' then
      select array_agg(t.shard), array_agg(t.key) into shards, keys from (select distinct %1$s as shard, %2$s as key from old_rows r%3$s) t;
    else
      select array_agg(t.shard), array_agg(t.key) into shards, keys from (
        select %1$s as shard, %2$s as key from old_rows r%3$s union select %1$s, %2$s from new_rows r%3$s) t;
    end if;$text$, '%1$s', replace(key, '%', '%%'), '%2$s');
  plain := format(look, case when attached.shard_expression is null then 'null::int' else '0' end, '');
  look := format(look, shard, case when matches <> '' then ' where ' || matches else '' end);
  if matches <> '' or attached.shard_expression is not null then
    look := format(E'\n  begin%s\n  exception when others then  -- an expression failed: touch what it was asked about%s\n  end;', look, plain);
  end if;
  if attached.on_error = 'gap' then
    capture := format(E'begin\n      %s\n    exception when others then\n      perform trunkline._tube_note_gap(%s, sqlerrm);\n    end;', capture, attached.attachment);
  end if;
  execute format($text$create or replace function %s() returns trigger language plpgsql as $trunkline$
declare
  shards int[];
  keys text[];
begin
  if tg_op = 'TRUNCATE' then
    perform trunkline._tube_capture_truncate(%s);
    return null;
  end if;%s
  if keys is not null then
    %s
  end if;
  return null;
end $trunkline$ $text$, place, attached.attachment, look, capture);
  return place;
end $$;
select trunkline._access('_tube_generate(trunkline.tube, trunkline.tube_table)', 'writer');
