/* broker_commit for many lanes at once: _broker_cut_many() without anything under way. */
create or replace function trunkline._broker_commit_many(group_names text[], handlers text[], lanes int[], epochs bigint[], up_tos bigint[])
returns int[] language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return trunkline._broker_cut_many(group_names, handlers, lanes, epochs, up_tos, '{}');
end $$;
select trunkline._access('_broker_commit_many(text[], text[], int[], bigint[], bigint[])', 'reader');
