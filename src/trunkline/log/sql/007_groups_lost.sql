/* Their answers grew: what is made anew from their files must not stand beside what was there. */
drop function if exists trunkline.log_lag(text, text);
drop function if exists trunkline.log_groups(text, text);
