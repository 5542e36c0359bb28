/* Its answer grew: what is made anew from its file must not stand beside what was there. */
drop function if exists trunkline.log_ends(text[]);
