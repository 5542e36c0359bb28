/* It got an argument: what is created from its file must not stand beside the former one. */
drop function if exists trunkline.live_tables(regclass);
