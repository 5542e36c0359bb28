/* Note the life in which the schema is made: whoever goes on from a copy of it, however early, is another. */
select trunkline.incarnation();
