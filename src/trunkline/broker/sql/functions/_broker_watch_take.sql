/* The statements that collect the events of a query of a watch; mixed: of several kinds.  Those of a small change are stored at the end of the
   trigger, outside of the block that catches errors; a large one is stored in parts, so that memory does not depend on it. */
create or replace function trunkline._broker_watch_take(query text, mixed boolean, watch int)
returns text language sql immutable as $$
  select format($text$
      select array_agg(e.key), array_agg(e.payload)%1$s into keys, payloads%2$s from (%3$s limit 200) e;
      if cardinality(keys) = 200 then
        for part in select * from (%3$s) e offset 200 loop
          if cardinality(keys) = 200 then
            perform trunkline._broker_capture(topic, base, keys, payloads, kinds, metadatas, %6$s, pass);
            keys := '{}';
            payloads := '{}';%4$s
          end if;
          keys := array_append(keys, part.key);
          payloads := array_append(payloads, part.payload);%5$s
        end loop;
      end if;$text$,
    case when mixed then ', array_agg(e.kind), array_agg(e.metadata)' end, case when mixed then ', kinds, metadatas' end, query,
    case when mixed then E'\n            kinds := ''{}'';\n            metadatas := ''{}'';' end,
    case when mixed then E'\n          kinds := array_append(kinds, part.kind);\n          metadatas := array_append(metadatas, part.metadata);' end, watch);
$$;
select trunkline._access('_broker_watch_take(text, boolean, int)', 'writer');
