/* Does a topic fit a pattern?  Words are separated by dots; * stands for one word, # for any number of them, also none.
   Errors: TL422 when it is no pattern. */
create or replace function trunkline.broker_topic_matches(topic text, pattern text)
returns boolean language sql immutable security definer set search_path = pg_catalog, pg_temp as $$
  select topic ~ trunkline._topic_regex(pattern);
$$;
comment on function trunkline.broker_topic_matches(text, text) is 'Does a topic fit a pattern? * stands for one word, # for any number of them.';
select trunkline._access('broker_topic_matches(text, text)', 'reader');
