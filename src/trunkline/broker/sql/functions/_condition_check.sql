/* Check a condition in SQL: a boolean expression over e and s.  Its canonical text and its tree.
   Errors: TL422 with the server's words. */
create or replace function trunkline._condition_check(condition text, out expression text, out tree text)
language plpgsql as $$
declare
  parsed record;
  fault text;
begin
  if not trunkline._condition_sandboxed() then
    raise exception using errcode = 'TL422', message = 'conditions in SQL are refused: there is no role trunkline_matcher that they could run as.',
      hint = format('Use the JSON form, or have a DBA run "create role trunkline_matcher nologin; grant trunkline_matcher to %s", then select trunkline.roles_grant().', current_user);
  end if;
  begin
    select * into strict parsed from trunkline._condition_parse(condition);
    fault := coalesce(trunkline._condition_fault(parsed.tree), case when parsed.type <> 'boolean' then format('it gives %s, not boolean', parsed.type) end,
      'its parentheses do not match, ' || trunkline._expression_fault(condition));
  exception when syntax_error_or_access_rule_violation or data_exception or feature_not_supported or program_limit_exceeded then
    fault := replace(sqlerrm, '""its end""', 'its end');
  end;
  if fault is not null then
    raise exception using errcode = 'TL422', message = format('%s is not a condition: %s.', quote_literal(left(condition, 200)), fault),
      hint = 'Write one boolean expression over e (topic, key, payload, metadata, at, event_id, event_position) and s (params, group_name, subscription), with functions of Postgres that depend on nothing but what they are given, and now().', detail = jsonb_build_object('condition', left(condition, 200))::text;
  end if;
  expression := parsed.canonical;
  tree := parsed.tree;
end $$;
