/* Which partitions log_claim() would find something in for a shared group: one read-only call for an idle reader.  All of them
   for a group that a claim would make, or refuse because it is not shared.
   Errors: TL404, TL422. */
create or replace function trunkline.log_claimable(topic text, group_name text)
returns setof int language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._log_check_name('group', group_name);
  select p.partition
    from trunkline.log_partition p
    left join trunkline.log_group g on g.topic_id = p.topic_id and g.group_name = $2
    left join trunkline.cursor_key k on k.resource = trunkline._log_resource(p.topic_id, $2, p.partition)
    left join lateral (select x.* from trunkline._cursor_latest(k.cursor_id) x) c on true
   where p.topic_id = (trunkline._log_topic_row($1)).topic_id
     and (g.mode is distinct from 'shared' or trunkline._log_done_up_to(p, c.up_to) < trunkline._log_tail_briefly(p)
          or c.state is not null and trunkline._log_claim_due(c.state, clock_timestamp()) is not null)
   order by 1;
$$;
comment on function trunkline.log_claimable(text, text) is 'Which partitions have something to claim for a shared group.';
select trunkline._access('log_claimable(text, text)', 'reader');
