/* tube_version() tells the generation of the server too: its incarnation may not fit into a version. */
drop function if exists trunkline.tube_version();
