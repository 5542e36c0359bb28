/* Settings of the trigger function of a watched table: names in a condition mean what they mean for whoever watches, whatever
   the writer puts in front; what is written does not depend on the writer's settings either.  A session that has updated one row keeps
   the plan: with nested loops it would compare every row before with every row after when it updates thousands. */
create or replace function trunkline._broker_watch_settings(watched trunkline.broker_watched_table)
returns text[] language sql stable as $$
  select array['search_path=' || case when watched.condition is null then 'pg_catalog, pg_temp'
                else (select concat_ws(', ', string_agg(quote_ident(s), ', ' order by place), 'pg_temp') from unnest(current_schemas(false)) with ordinality u (s, place)
                       where s !~ '^pg_') end, 'enable_nestloop=off']
      || case when bool_or(c.type !~ E'^(bigint|integer|smallint|text|boolean|uuid|jsonb?|numeric|character|real|double)\\M') then
           array['TimeZone=UTC', 'DateStyle=iso, mdy', 'IntervalStyle=iso_8601', 'bytea_output=hex', 'extra_float_digits=1']
              when bool_or(c.type ~ E'^(real|double)\\M') then array['extra_float_digits=1'] else '{}' end
    from trunkline._broker_watch_columns(watched.relation) c;
$$;
select trunkline._access('_broker_watch_settings(trunkline.broker_watched_table)', 'writer');
