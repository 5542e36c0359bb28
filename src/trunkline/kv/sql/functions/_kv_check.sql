/* Refuse what cannot be written: TL403 the namespace of the parade, or no privilege "append", TL404 an unknown one, TL409 while this clock is too far ahead, TL413, TL422. */
create or replace function trunkline._kv_check(namespace text, keys text[], payloads jsonb[])
returns void language plpgsql as $$
declare
  longest int;
  largest int;
  ahead interval;
  bad text;
begin
  select least(k.value::bigint, 2000), v.value, case when c.ahead is not null then trunkline._kv_ahead() end into longest, largest, ahead  -- 2000 is what the index takes
    from trunkline.config k, trunkline.config v, trunkline.kv_clock c where k.name = 'kv.key_bytes' and v.name = 'kv.value_bytes';
  if namespace = 'parade' then
    perform trunkline._raise('TL403', 'the namespace "parade" says what belongs to the parade.', 'Change it with kv_instance_put(), kv_namespace_put() and kv_policy_put().');
  end if;
  if namespace is distinct from 'default' then
    perform trunkline._kv_namespace_check(namespace);
  end if;
  if namespace = any (trunkline._kv_guarded('append')) then
    perform trunkline._check_may('namespace:' || namespace, 'append');
  end if;
  if cardinality(keys) is null or array_position(keys, null) is not null or '' = any (keys) then
    perform trunkline._raise('TL422', format('a key is a text of at least one letter, got %s.', case when '' = any (keys) then 'an empty one' else 'NULL' end));
  end if;
  select k into bad from unnest(keys) k where octet_length(k) > longest limit 1;
  if found then
    perform trunkline._raise('TL422', format('a key has at most %s bytes, got %s: "%s...".', longest, octet_length(bad), left(bad, 40)),
      'The limit is the setting kv.key_bytes.');
  end if;
  select pg_column_size(v)::text into bad from unnest(payloads) v where pg_column_size(v) > largest limit 1;
  if found then
    perform trunkline._raise('TL413', format('a value has at most %s bytes, got %s.', largest, bad), 'The limit is the setting kv.value_bytes.');
  end if;
  -- what is nested deeper is told to other zones inside of more, and few parsers take it
  if exists (select from unnest(payloads) v where pg_column_size(v) > 1600 and jsonb_path_exists(v, '$.**{200}')) then
    perform trunkline._raise('TL422', 'a value has at most 200 levels of arrays and objects in each other, got more.');
  end if;
  if ahead is not null then
    perform trunkline._raise('TL409', format('the clock of this server is %s ahead of most others: nothing is stamped until it is right.', ahead),
      'Set the clock, or raise the setting kv.max_skew if the others are wrong.');
  end if;
end $$;
