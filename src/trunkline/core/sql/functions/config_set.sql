/* Change a setting; NULL brings back the default.  The value is checked against the setting's type
   and minimum, and no duration is above 1000 years, no timeout above 24 days, which is what the server takes, and no ring has more than
   256 slots (TL422).  Takes effect at the next use: nothing needs a restart. */
create or replace function trunkline.config_set(name text, value text)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  setting trunkline.config;
  wanted text;
  enough boolean;
  most text;
begin
  select c.* into setting from trunkline.config c where c.name = config_set.name;
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no setting "%s".', name),
      hint = 'List them with config_list().', detail = jsonb_build_object('name', name)::text;
  end if;
  wanted := coalesce(value, setting.default_value);
  begin
    execute format('select ($1::%1$s)::text, coalesce($1::%1$s >= $2::%1$s, true)', setting.type)
      into wanted, enough using wanted, setting.minimum;
  exception when data_exception or syntax_error or check_violation then
    raise exception using errcode = 'TL422', message = format('setting "%s" takes a value of type %s, got "%s".', name, setting.type, value),
      hint = format('For example: %s', setting.default_value), detail = jsonb_build_object('name', name)::text;
  end;
  if not enough then
    raise exception using errcode = 'TL422', message = format('setting "%s" must be at least %s, got %s.', name, setting.minimum, wanted),
      detail = jsonb_build_object('name', name, 'minimum', setting.minimum)::text;
  end if;
  most := case when right(name, 8) = '_timeout' then '24 days' when setting.type = 'interval' then '1000 years'
               when name like 'ring.%.slots' then '256' end;  -- who reads a ring locks all of its slots
  if most is not null then
    execute format('select $1::%1$s <= $2::%1$s', setting.type) into enough using wanted, most;
    if not enough then
      raise exception using errcode = 'TL422', message = format('setting "%s" must be at most %s, got %s.', name, most, wanted),
        detail = jsonb_build_object('name', name)::text;
    end if;
  end if;
  update trunkline.config c set value = wanted where c.name = config_set.name and c.value <> wanted;
  return wanted;
end $$;
comment on function trunkline.config_set(text, text) is 'Change a setting; NULL brings back the default.';
select trunkline._access('config_set(text, text)', 'admin');
