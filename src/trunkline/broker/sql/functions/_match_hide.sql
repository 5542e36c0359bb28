/* Note, until the transaction ends, which owners of subscriptions may not read the events of which of some watches, and the same of one more role: _match_statement()
   leaves these events out before the condition sees them.  Events that are matched have minus their watch in place of the subscription. */
create or replace function trunkline._match_hide(marks bigint[], also name default null)
returns void language plpgsql as $$
declare
  hidden text[] := '{}';
begin
  if exists (select from unnest(marks) m where m < 0) then
    hidden := array(
      with recursive owners as (  -- each once, however many subscriptions it has
        (select s.owner from trunkline.broker_subscription s where s.owner is not null order by s.owner limit 1)
        union all
        select (select s.owner from trunkline.broker_subscription s where s.owner > o.owner order by s.owner limit 1) from owners o where o.owner is not null),
      reader as materialized (
        select r.owner, trunkline._watch_readable(r.owner) as watches
          from (select o.owner from owners o where o.owner is not null
                union select unnest(s.owners) from trunkline.broker_subscription s where cardinality(s.owners) > 1
                union select also where also is not null) r)
      select r.owner || ' ' || -m.mark from reader r cross join (select distinct u as mark from unnest(marks) u where u < 0) m
       where -m.mark <> all (r.watches));
  end if;
  perform set_config('trunkline.match_hidden', hidden::text, true);
end $$;
