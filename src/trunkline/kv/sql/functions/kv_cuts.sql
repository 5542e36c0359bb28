/* Keys that cut those with a prefix into parts of about the same size: the last key of each part but the last one.  Fewer where
   there are fewer keys.  For readers that share a namespace: each scans from one cut (after_key) to the next (until_key).
   Errors: TL403, TL404, TL422. */
create or replace function trunkline.kv_cuts(namespace text, prefix text default '', parts int default 2)
returns setof text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  if prefix is null or parts is null or parts not between 1 and 100000 then
    perform trunkline._raise('TL422', format('prefix is a text and there are 1 to 100000 parts, got %s.', coalesce(parts::text, 'NULL')));
  end if;
  perform trunkline._kv_namespace_check(namespace);
  if namespace = any (trunkline._kv_guarded('read')) then
    perform trunkline._check_may('namespace:' || namespace, 'read');
  end if;
  return query
    select c.key
      from (select e.key, row_number() over (order by e.key) as place, count(*) over () as n
              from trunkline.kv_entry e
             where e.namespace = kv_cuts.namespace and e.key >= prefix and left(e.key, length(prefix)) = prefix
               and e.key < trunkline._kv_beyond(prefix)) c
     where c.place < c.n and (c.place - 1) * parts / c.n <> c.place * parts / c.n;
end $$;
comment on function trunkline.kv_cuts(text, text, int) is 'Keys that cut a namespace into parts of about the same size.';
select trunkline._access('kv_cuts(text, text, int)', 'reader');
