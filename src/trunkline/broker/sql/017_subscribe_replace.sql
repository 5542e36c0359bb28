/* They got an argument: the functions that their files make must not stand beside the old ones. */
drop function if exists trunkline.broker_subscribe(text, text, jsonb, interval, bigint, timestamptz, uuid, text, text, int);
drop function if exists trunkline._broker_handler_ensure(int, text, bigint, text);
