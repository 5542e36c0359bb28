/* All settings with their defaults and what they are for. */
create or replace function trunkline.config_list()
returns table (name text, value text, default_value text, type text, description text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select c.name, c.value, c.default_value, c.type, c.description from trunkline.config c order by c.name;
$$;
comment on function trunkline.config_list() is 'All settings with their defaults and what they are for.';
select trunkline._access('config_list()', 'reader');
