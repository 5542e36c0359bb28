/* Stands where a condition would, which the session must not evaluate as it is: TL403. */
create or replace function trunkline._spark_refuse(relation text, authors name[])
returns boolean language plpgsql stable as $$
begin
  perform trunkline._raise('TL403', format('the condition of table %s was set by %s and would run with the rights of this session.', relation,
      (select string_agg(distinct quote_ident(a.role), ' and ') from unnest(authors) a (role))),
    'Connect Spark as that role, or read the tube with enrich=json: the server then evaluates it as that role.');
  return false;
end $$;
select trunkline._access('_spark_refuse(text, name[])', 'reader');
