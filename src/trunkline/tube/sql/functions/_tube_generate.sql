/* Write the capture function of an attachment: in the schema of the table, for the table's owner, running as whoever
   writes.  Expressions of users are evaluated there; only the result goes through _tube_capture().  An expression
   that fails touches anyway; with on_error 'gap' a capture that fails lets the write through and notes it. */
create or replace function trunkline._tube_generate(tube trunkline.tube, attached trunkline.tube_table)
returns text language plpgsql as $$
declare
  place text := trunkline._tube_function_name(attached);
  matches text := concat_ws(' and ', '(' || tube.condition || E'\n)', '(' || attached.condition || E'\n)');
  look text := trunkline._tube_look(attached, attached.shard_expression, matches);
  capture text := format('perform trunkline._tube_capture(%s, tg_op, shards, keys);', attached.attachment);
begin
  if matches <> '' or attached.shard_expression is not null then
    look := format(E'\n  begin%s\n  exception when others then  -- an expression failed: touch what it was asked about%s\n  end;',
      look, trunkline._tube_look(attached, case when attached.shard_expression is not null then '0' end, ''));
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
