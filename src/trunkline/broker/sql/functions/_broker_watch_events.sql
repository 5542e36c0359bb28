/* The events of a change: a query over the rows that a trigger sees, as queries that give n, key, image, seen, error.
   A watched table is seen as the rows that meet its condition, each under its key.  An update of a row that was and is
   seen under one key is an update; one that enters is an insert, one that leaves a delete, and one that changes its key is both:
   events are ordered by key, and two keys are concerned.  Deletes come first, so that rows may take each other's keys. */
create or replace function trunkline._broker_watch_events(operation text, old_rows text, new_rows text, joined text, key_columns text[])
returns text language sql stable as $$
  select case operation when 'update' then format($text$select e.kind, e.key, e.payload,
           case when coalesce(o.error, c.error) is null then e.metadata else e.metadata || jsonb_build_object('error', coalesce(o.error, c.error)) end as metadata
      from %s o %s %s c on %s
     cross join lateral (
       select 0 as rank, 'delete' as kind, o.key as key, o.image as payload,
              case when c.key is distinct from o.key and c.n is not null then jsonb_build_object('new_key', c.key) else '{}' end as metadata
        where o.seen and (c.seen is not true or c.key is distinct from o.key)
        union all
       select 1, 'update', c.key, d.changed || %s, jsonb_build_object('old', o.image)
         from (select jsonb_object_agg(f.key, f.value) as changed from jsonb_each(c.image) f where o.image -> f.key is distinct from f.value) d
        where o.seen and c.seen and c.key is not distinct from o.key and d.changed is not null
        union all
       select 1, 'insert', c.key, c.image,
              case when o.n is null then '{}' when c.key is distinct from o.key then jsonb_build_object('old', o.image, 'old_key', o.key)
                   else jsonb_build_object('old', o.image) end
        where c.seen and (o.seen is not true or c.key is distinct from o.key)) e
     order by e.rank, coalesce(c.n, o.n)$text$,
      old_rows, case joined when 'n' then 'join' else 'full join' end, new_rows,
      case joined when 'n' then 'c.n = o.n and c.it *<> o.it' when 'judged' then 'c.n = o.n' else 'c.key = o.key' end,
      (select format('jsonb_build_object(%s)', string_agg(format('%1$L, c.image -> %1$L', k), ', ')) from unnest(key_columns) k))
    else format('select %L as kind, c.key, c.image as payload, case when c.error is not null then jsonb_build_object(''error'', c.error) end as metadata from %s c where c.seen order by c.n',
      operation, case operation when 'insert' then new_rows else old_rows end) end;
$$;
select trunkline._access('_broker_watch_events(text, text, text, text, text[])', 'writer');
