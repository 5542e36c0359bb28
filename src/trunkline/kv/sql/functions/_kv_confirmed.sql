/* The position that an instance had confirmed when it was last heard to the end: what is read from it since has been told by one who knew all up to there.  NULL when this life of it
   has confirmed nothing before then, or it is not waited for any more. */
create or replace function trunkline._kv_confirmed(instance text)
returns bigint language sql stable as $$
  select c.up_to
    from trunkline._kv_followers() f join trunkline.kv_peer p on p.instance = f.instance
    join trunkline.cursor_key k on k.resource = trunkline._kv_to(f.instance)
    join trunkline.cursor c on c.cursor_id = k.cursor_id
   where f.instance = $1 and c.at <= p.level_at
     and c.seq > coalesce((select max(b.seq) from trunkline.cursor b where b.cursor_id = k.cursor_id and b.state is not null), 0)
   order by c.seq desc limit 1;
$$;
