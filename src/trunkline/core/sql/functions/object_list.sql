/* Objects with their owner and their grants: {"append": ["alice"], "read": ["trunkline_reader"]}.  owner is NULL for objects that are older than owners.
   may are the privileges of the role that asks. */
create or replace function trunkline.object_list(kind text default null)
returns table (object text, kind text, name text, owner name, grants jsonb, may text[], created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select o.object, o.kind, o.name, o.owner,
         coalesce((select jsonb_object_agg(g.privilege, g.roles)
                     from (select g.privilege, jsonb_agg(g.role order by g.role) as roles from trunkline.object_grant g
                            where g.object = o.object group by g.privilege) g), '{}'),
         array(select p from unnest(k.privileges) p where trunkline._may(o.object, array[p], trunkline._caller())), o.created_at
    from trunkline.object o join trunkline.object_kind k using (kind)
   where $1 is null or o.kind = $1
   order by o.kind, o.name;
$$;
comment on function trunkline.object_list(text) is 'Objects with their owner, their grants and what the role that asks may do.';
select trunkline._access('object_list(text)', 'reader');
