/* Make the table of a segment and its row in the catalogue.  Two rows to a page: the ends of some hundred messages
   stay beside the row, where they cost neither a look-up nor a write of their own. */
create or replace function trunkline._log_segment_create(topic_id int, partition int, first_offset bigint)
returns bigint language plpgsql as $$
declare
  number bigint;
begin
  insert into trunkline.log_segment (topic_id, partition, first_offset)
  values (_log_segment_create.topic_id, _log_segment_create.partition, _log_segment_create.first_offset)
  returning segment_id into number;
  execute format('create table trunkline.log_segment_%s (like trunkline.log_batch including all) with (toast_tuple_target = 4080)', number);
  return number;
end $$;
