/* It got an argument: what is made anew from its file must not stand beside what was there. */
drop function if exists trunkline.broker_seek(text, text, timestamptz, bigint, int);
