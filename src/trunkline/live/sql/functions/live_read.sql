/* Changes after a position that the conditions of live subscriptions ask for: those of a process, or one.  Each event with the row before and
   after, the subscriptions, and for each of them whether its condition holds for the row before (matched_old) and after (matched_new).  A
   TRUNCATE has neither row.  Rows are as they were written: policies are for the caller to ask, with live_visible().  So the caller must be allowed to see
   all rows: it has "read" on the table, or SELECT and no row-level security.
   A last row without an event says how far was looked: at most max_events, fewer when they are large.  A row with an error names subscriptions
   whose condition fails; others are not concerned.  If it says lost, these subscriptions have to load the table again and subscribe again: rows that were
   written before the table became live, or before one of its columns was renamed or dropped, are not sent.  Only what the triggers of a table wrote
   counts, not what was published under the same topic.
   generation: what live_enter() returned to the process; its subscriptions are gone when it has changed.
   incarnation: the life of the server in which the position was given.  Up to to_position, else to the present end.  Reads only.
   Errors: TL403, TL410 when events after the position have left, or it is not of this history; TL422; TL423 another generation. */
create or replace function trunkline.live_read(after bigint, process uuid default null, subscription bigint default null, incarnation int default null,
  max_events int default 1000, to_position bigint default null, generation bigint default null)
returns table (up_to bigint, event_id bigint, relation oid, operation text, old_row jsonb, new_row jsonb, at timestamptz,
  subscriptions bigint[], matched_old boolean[], matched_new boolean[], error text, lost boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set datestyle = 'ISO, MDY' set jit = off as $$
declare
  enough constant int := 8388608;  -- bytes of rows with which a read ends
  head bigint := trunkline.broker_head();
  present int := trunkline.incarnation();
  last_one bigint := least(to_position, head);
  batch trunkline.live_event[] := '{}';
  bytes bigint := 0;
  seen int := 0;
  event record;
  before_ jsonb;
  after_ jsonb;
  concerned oid[];
  history bigint;
  lost_ones oid[] := '{}';
  shapes int[];
  topics text[];
  places bigint[];
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
    perform trunkline._raise('TL423', format('the lease of process %s ran out, and its live subscriptions ended.', process), 'Subscribe again.');
  elsif live_read.incarnation <> present or after > head then
    perform trunkline._raise('TL410', format('position %s is not of this history: the server has begun another life since.', after), 'Start again from the present end.',
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
  perform trunkline._check_may('table:' || w.relation_name, 'read') from trunkline.broker_watched_table w
    where w.relation = any (concerned) and w.watch <> all (trunkline._watch_readable(trunkline._caller()));
  history := (select max(l.history_from) from trunkline.live_table l where l.relation = any (concerned));
  topics := array(select t || o from trunkline.broker_watched_table w join trunkline.broker_watch_mark m on m.watch = w.watch
    cross join unnest(m.topics) t cross join unnest(array['.insert', '.update', '.delete', '.truncate']) o where w.relation = any (concerned));
  if topics = '{}' then
    perform trunkline._event_left(after + 1) from trunkline.broker_ends() n where n.first_one > after + 1;
  else
    places := array(select p.up_to from trunkline._event_positions(after + 1, last_one, topics, max_events) p order by p.up_to);
    if cardinality(places) = max_events then
      last_one := places[max_events];
    end if;
    for event in
      select e.event_position, e.event_id, e.watch, e.topic, substring(e.topic from '[a-z]+$') as operation, e.payload, e.metadata, e.at, l.relation, e.event_id <= l.history_from as lost
        from trunkline._event_rows(places) e
        left join (trunkline.broker_watched_table w join trunkline.live_table l on l.relation = w.relation) on w.watch = e.watch and w.relation = any (concerned)
       order by e.event_position
    loop
      seen := seen + 1;
      if event.relation is null then
        if event.watch is null and event.event_id <= history then  -- maybe from before there were marks
          lost_ones := lost_ones || array(select l.relation::oid from trunkline.broker_watch_mark m join trunkline.broker_watched_table w using (watch)
            join trunkline.live_table l on l.relation = w.relation
            where l.relation = any (concerned) and l.history_from >= event.event_id and left(event.topic, -1 - length(event.operation)) = any (m.topics));
        end if;
        continue;
      elsif event.lost then
        lost_ones := lost_ones || event.relation::oid;
        continue;
      end if;
      before_ := case event.operation when 'update' then event.metadata -> 'old' when 'delete' then event.payload || '{}' end;
      after_ := case event.operation when 'update' then (event.metadata -> 'old') || event.payload when 'insert' then event.payload || '{}' end;
      batch := array_append(batch, row(seen, event.event_position, event.event_id, event.relation, event.operation, before_, after_, event.at)::trunkline.live_event);
      bytes := bytes + coalesce(pg_column_size(before_), 0) + coalesce(pg_column_size(after_), 0);  -- not compressed: they are not as they are stored
      if bytes >= enough then
        last_one := event.event_position;
        exit;
      end if;
    end loop;
    if seen < (select count(*) from unnest(places) p where p <= last_one) then
      perform trunkline._event_left(after + 1);
    end if;
    lost_ones := array(  -- once for each table, however many events there are
      select t.relation from (select distinct b.relation from unnest(batch) b offset 0) t where trunkline._live_renamed(t.relation)
      union select l from unnest(lost_ones) l);
  end if;
  if lost_ones <> '{}' then
    batch := array(select b from unnest(batch) b where b.relation <> all (lost_ones));
    up_to := after;
    lost := true;
    for relation, subscriptions in execute format('select s.relation::oid, array_agg(s.subscription) from trunkline.live_subscription s where s.relation = any ($1) and %s group by 1', scope)
      using lost_ones, process, subscription
    loop
      error := format('what was written to table %s before it became live, or before a column got another name or left, cannot be told.', relation::regclass);
      return next;
    end loop;
    relation := null;
    subscriptions := null;
    error := null;
    lost := null;
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
    select e.event_position, e.event_id, e.relation, e.operation, e.old_row, e.new_row, e.at, m.subscriptions, m.held, m.holds, null::text, null::boolean
      from unnest(batch) e
      join (select u.place, array_agg(u.subscription) as subscriptions, array_agg(u.held) as held, array_agg(u.holds) as holds
              from unnest(all_places, all_subscriptions, all_old, all_new) u (place, subscription, held, holds) group by u.place) m on m.place = e.place
    union all
    select last_one, null, null, null, null, null, null, null, null, null, null, null
    order by 1, 2 nulls last;
end $$;
comment on function trunkline.live_read(bigint, uuid, bigint, int, int, bigint, bigint) is 'Changes after a position that live subscriptions ask for.';
select trunkline._access('live_read(bigint, uuid, bigint, int, int, bigint, bigint)', 'reader');
