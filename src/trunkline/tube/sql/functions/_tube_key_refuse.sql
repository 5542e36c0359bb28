/* TL422: this is no key of the table. */
create or replace function trunkline._tube_key_refuse(attached trunkline.tube_table, reason text)
returns void language plpgsql as $$
begin
  perform trunkline._raise('TL422', format('this is no key of table %s: %s.', attached.relation_name, reason),
    case when cardinality(attached.key_columns) = 1 then format('A key is the text of %s (%s).', attached.key_columns[1], attached.key_types[1])
         else format('A key is a JSON array of (%s).', array_to_string(attached.key_columns, ', ')) end);
end $$;
