/* Event ids as int64, little endian, one after the other. */
create or replace function trunkline._log_ids_bytes(ids bigint[])
returns bytea language sql immutable parallel safe as $$
  select string_agg(trunkline._log_int_bytes(((i.id << 32) >> 32)::int) || trunkline._log_int_bytes((i.id >> 32)::int), '' order by i.place)
    from unnest(ids) with ordinality i (id, place);
$$;
