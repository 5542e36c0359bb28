/* Instances that pull from here and were heard of within kv.peer_patience, and how far each has come. */
create or replace function trunkline._kv_followers()
returns table (instance text, up_to bigint) language sql stable as $$
  select p.instance, (trunkline._kv_reached(trunkline._kv_to(p.instance))).up_to
    from trunkline.kv_peer p join trunkline._kv_instances() i on i.instance = p.instance
   where p.asked_at > clock_timestamp() - trunkline._setting('kv.peer_patience')::interval;
$$;
