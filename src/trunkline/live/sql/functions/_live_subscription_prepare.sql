/* Check a live subscription and bring it into its one form: a trigger.  role is who inserts.
   Errors: TL403 a column that the role may not select, or it was forbidden just now, TL404 no live table, TL413, TL422, TL423 no living lease. */
create or replace function trunkline._live_subscription_prepare()
returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted record;
  allowed text[];
  bad text;
  shape trunkline.live_shape;
begin
  perform 1 from trunkline.live_role l join pg_roles r on r.rolname = l.role where pg_has_role(new.role, r.oid, 'usage') for key share of l;  -- live_forbid() waits for us, or we for it
  lock table trunkline.live_role in access share mode;  -- only a new lock shows what was revoked while we waited
  if not has_any_column_privilege(new.role, 'trunkline.live_subscription', 'insert') then
    raise exception using errcode = 'TL403', message = format('%s may not subscribe to live tables.', quote_ident(new.role)),
      hint = 'Have an owner of live tables allow it with live_allow().';
  end if;
  perform 1 from trunkline.live_table t where t.relation = new.relation for key share;
  if not found then
    raise exception using errcode = 'TL404', message = format('%s is not a live table.', coalesce(new.relation::text, 'NULL')),
      hint = 'Its owner makes it one with live_watch().';
  end if;
  perform trunkline._live_note(new.relation);
  allowed := (select a.columns from trunkline.live_access(new.relation, new.role) a);
  bad := (select coalesce('"' || left(c, 80) || '"', 'NULL') from unnest(new.changes) c where c is null or c <> all (array['created', 'updated', 'deleted', 'left']) limit 1);
  if new.changes = '{}' or bad is not null then
    raise exception using errcode = 'TL422', message = format('changes are some of created, updated, deleted and left, got %s.', coalesce(bad, 'none'));
  end if;
  new.changes := array(select c from unnest(array['created', 'updated', 'deleted', 'left']) c where c = any (new.changes));
  wanted := trunkline._live_condition(new.relation, new.condition);
  bad := (select c from unnest(new.columns) c where c is null or not exists (select from trunkline._live_column(new.relation) k where k.name = c) limit 1);
  if bad is not null or new.columns = '{}' then
    raise exception using errcode = 'TL422', message = format('columns are names of columns of %s, got %s.', new.relation, coalesce('"' || bad || '"', 'none')),
      hint = 'Leave columns out to get every update.';
  end if;
  bad := (select c from unnest((select w.key_columns from trunkline.broker_watched_table w where w.relation = new.relation) || wanted.names || new.columns) c
           where c <> all (allowed) limit 1);
  if bad is not null then
    raise exception using errcode = 'TL403', message = format('%s may not select column "%s" of %s.', quote_ident(new.role), bad, new.relation),
      hint = format('Have its owner run: grant select (%I) on %s to %I;', bad, new.relation, new.role);
  end if;
  bad := (select s.key from jsonb_each(case jsonb_typeof(new.settings) when 'object' then new.settings else '{"": 0}' end) s
           where s.key !~ E'^[A-Za-z_]\\w*(\\.[A-Za-z_]\\w*)+$' or s.key ~* E'^trunkline\\.' or jsonb_typeof(s.value) <> 'string' limit 1);
  if bad is not null then
    raise exception using errcode = 'TL422', message = 'settings are texts by names with a dot in them, such as {"app.org_id": "7"}.';
  elsif new.process is not null then
    perform trunkline.live_enter(new.process);
  end if;
  new.condition := wanted.normal;
  select s.* into shape from trunkline.live_shape s
   where s.relation = new.relation and s.terms = wanted.terms and s.expression = wanted.expression;
  if not found then
    insert into trunkline.live_shape as s (relation, terms, expression, key_expression) values (new.relation, wanted.terms, wanted.expression, wanted.key_expression)
    on conflict on constraint live_shape_terms do update set expression = excluded.expression
    returning s.* into shape;
  end if;
  new.shape_id := shape.shape_id;
  execute format('select %s from (select jsonb_object_agg(e.key, e.value -> ''eq'') as i from jsonb_each($1) e where e.value ? ''eq'') k', shape.key_expression)
    into new.key_hash using new.condition;
  return new;
end $$;
