/* Which rows of a live table, given as JSON, a role may see by the table's policies, with these settings: an answer for each.  The
   policies run as that role: whoever calls this must be a member of it.  Role and settings are as before when it returns.
   A row that lacks a column of which a policy speaks is seen by nobody.
   Errors: TL403 no member of the role, TL404, TL409 columns changed, TL422 a policy that cannot be judged. */
create or replace function trunkline.live_visible(relation regclass, role name, settings jsonb, images jsonb[])
returns boolean[] language sql set search_path = pg_catalog, pg_temp as $$
  select trunkline._live_answer(trunkline._live_question(relation, role), role, settings, images, array(select generate_series(1, cardinality(images))));
$$;
comment on function trunkline.live_visible(regclass, name, jsonb, jsonb[]) is 'Which rows of a live table a role may see by the policies of the table.';
select trunkline._access('live_visible(regclass, name, jsonb, jsonb[])', 'reader');
