/* The quotas of roles. */
create or replace function trunkline.quota_list()
returns table (role name, messages_per_second bigint, bytes_per_second bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select q.role, q.messages_per_second, q.bytes_per_second from trunkline.quota q order by q.role;
$$;
comment on function trunkline.quota_list() is 'The quotas of roles.';
select trunkline._access('quota_list()', 'reader');
