/* Write the capture function of an attachment: in the schema of the table, to which it is moved, for the table's owner, running
   as whoever writes.  Expressions of users are evaluated there; only the result goes through _tube_capture().  An expression
   that fails touches anyway; with on_error 'gap' a capture that fails lets the write through and notes it. */
create or replace function trunkline._tube_generate(attached trunkline.tube_table)
returns text language plpgsql as $$
declare
  place text := trunkline._tube_function_name(attached);
  held trunkline.tube := trunkline._tube_hold(attached.tube_id);
  matches text := trunkline._tube_conditions(attached, held);
  look text := trunkline._tube_look(attached, matches);
  renamed text := format(E'\n  exception when undefined_column then\n    raise exception using errcode = ''TL409'', message = %L, hint = %L;',
    format('tube "%s" captures table %s by its key (%s), of which a column has another name now.', held.tube, attached.relation_name, array_to_string(attached.key_columns, ', ')),
    format('Its owner attaches it again: select trunkline.tube_attach(%L, %L);', held.tube, attached.relation_name));
begin
  if to_regprocedure(place || '()') is not null and not trunkline._tube_function_there(attached) then
    execute format('alter function %s() set schema %s', place, (select c.relnamespace::regnamespace from pg_class c where c.oid = attached.relation));
    place := trunkline._tube_function_name(attached);
  end if;
  if matches is not null or attached.shard_expression is not null then
    look := format(E'\n  begin%s\n  exception when others then\n  begin%s%s\n  end;\n  end;', look, trunkline._tube_look_each(attached, matches), renamed);
  else
    look := format(E'\n  begin%s%s\n  end;', look, renamed);
  end if;
  execute format('create or replace function %s() returns trigger language plpgsql %s as %L', place, trunkline._tube_settings(attached), format($text$
#variable_conflict use_column
declare
  shards int[];
  keys text[];
begin
  if tg_op = 'TRUNCATE' then
    perform trunkline._tube_capture_truncate(%1$s);
    return null;
  end if;%2$s
  if cardinality(keys) > 0 then
    perform trunkline._tube_capture(%1$s, tg_op, shards, keys);
  end if;
  return null;%3$s
end $text$, attached.attachment, look,
    case when attached.on_error = 'gap' then format(E'\nexception when others then\n  perform trunkline._tube_note_gap(%s, sqlerrm);\n  return null;', attached.attachment) end));
  return place;
end $$;
select trunkline._access('_tube_generate(trunkline.tube_table)', 'writer');
