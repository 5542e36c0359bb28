/* What this copy knows of another instance, as proof for it: up to where it has read which of its lives, and up to where which of its lives
   has confirmed what is here. */
create or replace function trunkline._kv_word(instance text)
returns jsonb language sql stable as $$
  select jsonb_build_object('origin', f.state -> 'origin', 'seen', f.up_to, 'asked_origin', p.asked_origin, 'confirmed', case when t.state is null then t.up_to end)
    from (select 1) one left join trunkline._kv_reached(trunkline._kv_from($1)) f on true
    left join trunkline._kv_reached(trunkline._kv_to($1)) t on true left join trunkline.kv_peer p on p.instance = $1;
$$;
