/* tube_version() tells the generation of the server instead of its incarnation, which may not fit into a version. */
drop function if exists trunkline.tube_version();
