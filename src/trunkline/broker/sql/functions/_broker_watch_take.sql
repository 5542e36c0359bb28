/* The statements that store the events of a query: those of a small change outside of the block that catches errors, at the end
   of the trigger; a large one in parts, so that memory does not depend on it. */
create or replace function trunkline._broker_watch_take(watched trunkline.broker_watched_table, query text, mixed boolean)
returns text language sql stable as $$
  select format($text$
      select array_agg(e.key), array_agg(e.payload)%1$s into keys, payloads%2$s from (%3$s limit 200) e;
      if cardinality(keys) = 200 then
        for part in select array_agg(e.key order by e.n) as keys, array_agg(e.payload order by e.n) as payloads%4$s
                      from (select e.*, row_number() over () as n from (%3$s) e) e group by (e.n - 1) / 200 order by (e.n - 1) / 200 loop
          perform trunkline._broker_capture(%5$L, lower(tg_op), base, part.keys, part.payloads%6$s);
        end loop;
        return null;
      end if;$text$,
    case when mixed then ', array_agg(e.kind), array_agg(e.metadata)' end, case when mixed then ', kinds, metadatas' end, query,
    case when mixed then ', array_agg(e.kind order by e.n) as kinds, array_agg(e.metadata order by e.n) as metadatas' end, watched.topic,
    case when mixed then ', part.kinds, part.metadatas' end);
$$;
select trunkline._access('_broker_watch_take(trunkline.broker_watched_table, text, boolean)', 'writer');
