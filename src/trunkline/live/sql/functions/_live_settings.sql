/* Set settings for the rest of the transaction; what they were before. */
create or replace function trunkline._live_settings(settings jsonb)
returns jsonb language sql as $$
  select coalesce(jsonb_object_agg(s.key, coalesce(s.former, '')), '{}')
    from (select e.key, current_setting(e.key, true) as former, set_config(e.key, coalesce(e.value, ''), true) from jsonb_each_text(settings) e) s;
$$;
select trunkline._access('_live_settings(jsonb)', 'reader');
