/* A text above every key that begins with a prefix: no key has as many letters, none is higher. */
create or replace function trunkline._kv_beyond(prefix text)
returns text language sql stable as $$
  select prefix || repeat(chr(case getdatabaseencoding() when 'UTF8' then 1114111 else 255 end), trunkline._setting('kv.key_bytes')::int);
$$;
