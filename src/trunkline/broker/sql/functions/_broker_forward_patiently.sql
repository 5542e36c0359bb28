/* Forward one topic unless somebody holds it: then another time. */
create or replace function trunkline._broker_forward_patiently(topic text)
returns int language plpgsql as $$
begin
  return trunkline.broker_forward(topic);
exception when lock_not_available then
  return 0;
end $$;
select trunkline._access('_broker_forward_patiently(text)', 'admin');
