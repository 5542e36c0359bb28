/* Give a dead letter up, or all of a group: it is settled, and stays in <topic>.dead as long as that keeps it.  Returns how many.
   Errors: TL400 unless in READ COMMITTED, TL404, TL422. */
create or replace function trunkline.log_dead_discard(topic text, letter bigint default null, group_name text default null)
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
  select cardinality(trunkline._log_dead_take(topic, letter, group_name));
$$;
comment on function trunkline.log_dead_discard(text, bigint, text) is 'Give dead letters up: one, or all of a group.';
select trunkline._access('log_dead_discard(text, bigint, text)', 'writer');
