/* Changes after a position that the conditions of live subscriptions ask for: those of a process, or one.  Each event with the row before and
   after, the subscriptions, and for each of them whether its condition holds for the row before (matched_old) and after (matched_new).  A
   TRUNCATE has neither row.  What policies say is for the reader to ask: live_visible().  A last row without an event says how far was
   looked.  A row with an error names subscriptions whose condition fails; others are not concerned.
   generation: what live_enter() said to the process; its subscriptions are gone when it says another by now.
   incarnation: the life of the server in which the position was told.  Up to to_position, else to the present end.  Reads only.
   Errors: TL410 when events after the position have left, or it is not of this history; TL422; TL423 another generation. */
create or replace function trunkline.live_read(after bigint, process uuid default null, subscription bigint default null, incarnation int default null,
  max_events int default 1000, to_position bigint default null, generation bigint default null)
returns table (up_to bigint, event_id bigint, relation oid, operation text, old_row jsonb, new_row jsonb, at timestamptz,
  subscriptions bigint[], matched_old boolean[], matched_new boolean[], error text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set datestyle = 'ISO, MDY' set jit = off as $$
declare
  head bigint := trunkline.broker_head();
  present int := trunkline.incarnation();
  last_one bigint := least(to_position, head);
  batch trunkline.live_event[];
  concerned oid[];
  shapes int[];
  topics text[];
  scope text := case when subscription is null then 's.process = $2' else 's.subscription = $3' end;
  shape trunkline.live_shape;
  found record;
  all_places int[] := '{}';
  all_subscriptions bigint[] := '{}';
  all_old boolean[] := '{}';
  all_new boolean[] := '{}';
begin
  if after is null or after < 0 or max_events is null or max_events not between 1 and 100000 then
    perform trunkline._raise('TL422', 'after is a position, max_events is between 1 and 100000.');
  elsif generation is not null and not exists (select from trunkline.live_process p where p.process = live_read.process and p.generation = live_read.generation) then
    perform trunkline._raise('TL423', format('the lease of process %s ran out, and its live subscriptions ended.', process), 'Subscribe anew.');
  elsif live_read.incarnation <> present or after > head then
    perform trunkline._raise('TL410', format('position %s is not of this history: the server has begun another life since.', after), 'Begin anew from the present end.',
      jsonb_build_object('head', head, 'incarnation', present));
  elsif after >= last_one then
    return;
  end if;
  if subscription is null then
    shapes := array(select h.shape_id from trunkline.live_shape h
      where exists (select from trunkline.live_subscription s where s.shape_id = h.shape_id and s.process = live_read.process));
  else
    shapes := array(select s.shape_id from trunkline.live_subscription s where s.subscription = live_read.subscription);
  end if;
  concerned := array(select distinct h.relation::oid from trunkline.live_shape h where h.shape_id = any (shapes));
  topics := array(select w.topic || o from trunkline.broker_watched_table w cross join unnest(array['.insert', '.update', '.delete', '.truncate']) o where w.relation = any (concerned));
  if topics <> '{}' then
    select array_agg(row(e.place, e.up_to, e.event_id, w.relation, o.operation,
                         case o.operation when 'update' then e.metadata -> 'old' when 'delete' then e.payload end,
                         case o.operation when 'update' then (e.metadata -> 'old') || e.payload when 'insert' then e.payload end, e.at)::trunkline.live_event order by e.place)
      into batch
      from (select row_number() over (order by b.up_to)::int as place, b.* from trunkline.broker_events(after + 1, max_events, topics, last_one) b) e
      cross join lateral (select substring(e.topic from '[a-z]+$') as operation) o
      left join trunkline.broker_watched_table w on w.relation_name = e.metadata ->> 'table' and w.relation = any (concerned);
  else
    perform trunkline._event_left(after + 1) from trunkline.broker_ends() n where n.first_one > after + 1;
  end if;
  if cardinality(batch) = max_events then
    last_one := batch[max_events].event_position;
  end if;
  for shape in select h.* from trunkline.live_shape h where h.shape_id = any (shapes) and h.relation::oid in (select b.relation from unnest(batch) b) loop
    begin
      execute format($sql$
        select array_agg(m.place) as places, array_agg(m.subscription) as subscriptions, array_agg(m.held) as held, array_agg(m.holds) as holds
          from (select e.place, s.subscription, k.held, k.holds
                  from unnest($1) e
                 cross join lateral (select s.subscription, s.condition as c, s.changes from trunkline.live_subscription s
                   where %2$s and s.shape_id + 0 = %1$s and s.key_hash in (  -- not by the index of shapes
                     (select %3$s from (select e.old_row as i offset 0) x), (select %3$s from (select e.new_row as i offset 0) x)) offset 0) s
                 cross join lateral (select e.old_row is not null and (select %4$s from (select e.old_row as i, s.c as c offset 0) x) as held,
                                            e.new_row is not null and (select %4$s from (select e.new_row as i, s.c as c offset 0) x) as holds) k
                 where e.relation = %5$s and (k.held or k.holds)
                   and (case e.operation when 'insert' then array['created'] when 'delete' then array['deleted'] else array['updated', 'left'] end) && s.changes) m $sql$,
        shape.shape_id, scope, shape.key_expression, shape.expression, shape.relation::oid) into found using batch, process, subscription;
      all_places := all_places || coalesce(found.places, '{}');
      all_subscriptions := all_subscriptions || coalesce(found.subscriptions, '{}');
      all_old := all_old || coalesce(found.held, '{}');
      all_new := all_new || coalesce(found.holds, '{}');
    exception when data_exception or syntax_error_or_access_rule_violation then
      up_to := after;
      error := sqlerrm;
      relation := shape.relation;
      execute format('select array_agg(s.subscription) from trunkline.live_subscription s where s.shape_id = $1 and %s', scope) into subscriptions using shape.shape_id, process, subscription;
      if subscriptions is not null then
        return next;
      end if;
      error := null;
    end;
  end loop;
  if exists (select from unnest(batch) b where b.operation = 'truncate') then
    execute format($sql$
      select coalesce(array_agg(e.place), '{}') as places, coalesce(array_agg(s.subscription), '{}') as subscriptions
        from unnest($1) e join trunkline.live_subscription s on s.relation::oid = e.relation and %s and 'deleted' = any (s.changes) where e.operation = 'truncate' $sql$, scope)
      into found using batch, process, subscription;
    all_places := all_places || found.places;
    all_subscriptions := all_subscriptions || found.subscriptions;
    all_old := all_old || array_fill(false, array[cardinality(found.places)]);
    all_new := all_new || array_fill(false, array[cardinality(found.places)]);
  end if;
  return query
    select e.event_position, e.event_id, e.relation, e.operation, e.old_row, e.new_row, e.at, m.subscriptions, m.held, m.holds, null::text
      from unnest(batch) e
      join (select u.place, array_agg(u.subscription) as subscriptions, array_agg(u.held) as held, array_agg(u.holds) as holds
              from unnest(all_places, all_subscriptions, all_old, all_new) u (place, subscription, held, holds) group by u.place) m on m.place = e.place
    union all
    select last_one, null, null, null, null, null, null, null, null, null, null
    order by 1, 2 nulls last;
end $$;
comment on function trunkline.live_read(bigint, uuid, bigint, int, int, bigint, bigint) is 'Changes after a position that live subscriptions ask for.';
select trunkline._access('live_read(bigint, uuid, bigint, int, int, bigint, bigint)', 'reader');
