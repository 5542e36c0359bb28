/* A number in a sentence: 1 key, 2 keys; what is more than an s is said as many.  NULL is none. */
create or replace function trunkline._counted(n bigint, one text, many text default null)
returns text language sql immutable as $$
  select case n when 1 then '1 ' || one else coalesce(n::text, 'no') || ' ' || coalesce(many, one || 's') end;
$$;
select trunkline._access('_counted(bigint, text, text)', 'reader');
