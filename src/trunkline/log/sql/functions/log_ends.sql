/* Where the partitions of topics begin (archived or not) and end at this moment, and the life of the server: what a reader plans with.
   A topic that is made anew under its name has another topic_id.
   Reads one index entry per partition; the first call in a life of the server notes that life.  Errors: TL404 for the first topic that is not there. */
create or replace function trunkline.log_ends(topics text[])
returns table (topic text, partition int, first_offset bigint, last_offset bigint, incarnation int, topic_id int)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  -- a statement of its own: as a condition it would not be looked at where there is no partition
  select trunkline._log_topic_row(t.topic) from unnest(topics) with ordinality t (topic, place) order by t.place;
  select t.topic, p.partition, trunkline._log_first(p), trunkline._log_tail_briefly(p), i.incarnation, p.topic_id
    from unnest(topics) with ordinality t (topic, place)
    join trunkline.log_partition p on p.topic_id = (trunkline._log_topic_row(t.topic)).topic_id
    cross join (select trunkline.incarnation() as incarnation) i
   order by t.place, p.partition;
$$;
comment on function trunkline.log_ends(text[]) is 'Where the partitions of topics begin and end at this moment.';
select trunkline._access('log_ends(text[])', 'reader');
