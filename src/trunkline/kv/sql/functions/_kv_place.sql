/* Where a connection string leads to, without who goes there: host, port and database.  As libpq reads it: of a URI all up to an @ before the first slash is who,
   and in pairs a backslash takes the next letter along. */
create or replace function trunkline._kv_place(dsn text)
returns text language sql immutable as $$
  select case when dsn ~ '^postgres(ql)?://' then
      regexp_replace(dsn, '^([a-z]+://)([^/]*@)?([^?]*).*$', E'\\1\\3')
      || coalesce('?' || (select string_agg(m.found[1], '&') from regexp_matches(dsn, '[?&]((?:host|hostaddr|port|dbname)=[^&]*)', 'g') m (found)), '')
    else (select string_agg(m.part[1] || '=' || m.part[2], ' ') from regexp_matches(dsn, $regex$(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)$regex$, 'g') m (part)
           where m.part[1] in ('host', 'hostaddr', 'port', 'dbname')) end;
$$;
