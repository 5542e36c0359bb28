/* Raise an error of class TL: code, message, hint, and facts for programs as JSON in DETAIL.  What is empty is left out. */
create or replace function trunkline._raise(code text, message text, hint text default '', facts jsonb default '{}')
returns void language plpgsql as $$
begin
  if hint = '' and facts = '{}' then
    raise exception using errcode = code, message = message;
  elsif hint = '' then
    raise exception using errcode = code, message = message, detail = facts::text;
  elsif facts = '{}' then
    raise exception using errcode = code, message = message, hint = hint;
  end if;
  raise exception using errcode = code, message = message, hint = hint, detail = facts::text;
end $$;
comment on function trunkline._raise(text, text, text, jsonb) is 'Raise an error of SQLSTATE class TL.';
select trunkline._access('_raise(text, text, text, jsonb)', 'reader');
