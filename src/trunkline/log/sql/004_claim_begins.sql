/* Their arguments or answers grew: what is made anew from its file must not stand beside what was there. */
drop function if exists trunkline._log_claim(text, text, int, int, interval, int, uuid, timestamptz, boolean);
drop function if exists trunkline._log_group_ensure(trunkline.log_topic, text, text, text);
