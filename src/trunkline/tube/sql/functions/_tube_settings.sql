/* Settings of the capture function of an attachment: the text of a key does not depend on those of the session that writes. */
create or replace function trunkline._tube_settings(attached trunkline.tube_table)
returns text language sql stable as $$
  select concat_ws(' ', case when bool_or(t ~ '^(real|double precision)') then 'set extra_float_digits = 1' end,
                        case when bool_or(t ~ '^interval') then 'set intervalstyle = ''postgres''' end)
    from unnest(attached.key_types) t;
$$;
select trunkline._access('_tube_settings(trunkline.tube_table)', 'writer');
