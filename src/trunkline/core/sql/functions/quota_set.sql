/* Limit how many messages and bytes a role may append and publish in a second.  NULL sets no limit; two NULLs remove the quota.  The roles that inherit from
   the role share its quota, and one message may use up to a second's worth at once.  Admins have no quota.
   Errors: TL404 no such role, TL422 not a positive number. */
create or replace function trunkline.quota_set(role name, messages_per_second bigint default null, bytes_per_second bigint default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  id int;
  part text;
begin
  if messages_per_second < 1 or bytes_per_second < 1 then
    raise exception using errcode = 'TL422', message = format('a quota is a positive number, got %s messages and %s bytes.', coalesce(messages_per_second::text, 'NULL'), coalesce(bytes_per_second::text, 'NULL')),
      hint = 'NULL sets no limit.';
  end if;
  if messages_per_second is null and bytes_per_second is null then
    delete from trunkline.quota q where q.role = quota_set.role returning q.quota_id into id;
    foreach part in array case when id is null then '{}' else array['messages', 'bytes'] end loop
      execute format('drop sequence if exists trunkline.quota_%s_%s', id, part);
    end loop;
    return;
  end if;
  perform trunkline._role_check(role);
  insert into trunkline.quota as q (role, messages_per_second, bytes_per_second)
  values (quota_set.role, quota_set.messages_per_second, quota_set.bytes_per_second)
  on conflict on constraint quota_role do update
     set messages_per_second = excluded.messages_per_second, bytes_per_second = excluded.bytes_per_second
  returning q.quota_id into id;
  foreach part in array array['messages', 'bytes'] loop
    execute format('create sequence if not exists trunkline.quota_%s_%s minvalue 0 start 0', id, part);
  end loop;
end $$;
comment on function trunkline.quota_set(name, bigint, bigint) is 'Limit the messages and bytes that a role may append and publish in a second.';
select trunkline._access('quota_set(name, bigint, bigint)', 'admin');
