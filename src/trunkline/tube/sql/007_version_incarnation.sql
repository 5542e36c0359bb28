/* tube_version() tells the incarnation again, which workers of before ask for. */
drop function if exists trunkline.tube_version();
