/* Find the subscriptions whose conditions fail on the events at hand, and quarantine them with error and event: the first
   bad event of a condition is found by halving, then the subscriptions.  After a hundred of one condition the rest of
   those that fail is taken together.  When somebody resumes them they go on after the last position matched. */
create or replace function trunkline._match_isolate(matched bigint)
returns void language plpgsql as $$
declare
  condition trunkline.broker_condition;
  bad_place int;
  suspects int8range[];
  half int8range;
  middle bigint;
  blamed int;
  error text;
begin
  for condition in select c.* from trunkline.broker_condition c where exists (select from trunkline.broker_subscription_live s where s.condition_id = c.condition_id) loop
    blamed := 0;
    loop
      suspects := array(select int8range(min(s.subscription), max(s.subscription), '[]') from trunkline.broker_subscription_live s
                         where s.condition_id = condition.condition_id having count(*) > 0);
      exit when suspects = '{}';
      bad_place := trunkline._match_first_bad(condition);
      exit when bad_place is null;
      while cardinality(suspects) > 0 loop
        half := suspects[1];
        suspects := suspects[2:];
        error := trunkline._match_fails(condition, null, int4range(bad_place, bad_place, '[]'), half);
        continue when error is null;
        if upper(half) - lower(half) > 1 and blamed < 100 then
          middle := (lower(half) + upper(half)) / 2;
          suspects := array[int8range(lower(half), middle), int8range(middle, upper(half))] || suspects;
        else
          perform trunkline._broker_quarantine(s.subscription, error, (select b.event_position from pg_temp.trunkline_batch b where b.place = bad_place), matched)
             from trunkline.broker_subscription_live s where s.condition_id = condition.condition_id and s.subscription <@ half;
          blamed := blamed + 1;
        end if;
      end loop;
    end loop;
  end loop;
end $$;
