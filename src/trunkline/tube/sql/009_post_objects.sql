/* Tubes have owners.  Those that are here already keep what all roles could do with them: they have no owner, and trunkline_writer manages
   them. */
select trunkline._object_kind('tube', '{append,consume}', '{"append": "trunkline_writer", "consume": "trunkline_reader"}');
select trunkline._object_adopt('tube', t.tube) from trunkline.tube t;
create trigger tube_object after insert or delete on trunkline.tube for each row execute function trunkline._object_follow('tube', 'r.tube');
