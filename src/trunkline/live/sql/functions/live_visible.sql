/* Which rows of a live table, given as JSON, a role may see by the table's policies, with these settings: an answer for each.  The
   policies run as that role: whoever calls this must be a member of it.  Role and settings are as before when it returns.
   Errors: TL403 no member of the role, TL404, TL422 a policy that cannot be judged. */
create or replace function trunkline.live_visible(relation regclass, role name, settings jsonb, images jsonb[])
returns boolean[] language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  policy text := trunkline._live_policy(relation, role);
  before text := current_setting('role');
  shown text := format('%s', relation);
  called text := (select c.relname from pg_class c where c.oid = relation);
  former jsonb;
  answer boolean[];
begin
  if policy is null then
    return array(select i is not null from unnest(images) i);
  elsif not pg_has_role(role, 'member') then
    perform trunkline._raise('TL403', format('%s may not act as %s.', quote_ident(current_user), quote_ident(role)), format('Have a DBA run: grant %I to %I;', role, current_user));
  end if;
  former := trunkline._live_settings(settings);
  perform set_config('role', role, true);
  execute format('select array_agg(u.image is not null and coalesce((select %s from jsonb_populate_record(null::%s, u.image) %I), false) order by u.place) from unnest($1) with ordinality u (image, place)',
    policy, shown, called) into answer using images;
  perform set_config('role', before, true);
  perform trunkline._live_settings(former);
  return coalesce(answer, '{}');
end $$;
comment on function trunkline.live_visible(regclass, name, jsonb, jsonb[]) is 'Which rows of a live table a role may see by the policies of the table.';
select trunkline._access('live_visible(regclass, name, jsonb, jsonb[])', 'reader');
