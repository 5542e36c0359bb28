/* tube_list() returns the owner too. */
drop function if exists trunkline.tube_list(regclass);
