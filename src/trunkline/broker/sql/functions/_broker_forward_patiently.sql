/* Forward one topic unless somebody holds it, it was just deleted, or something is wrong with it, which is told as a
   warning: then another time.  The others need not wait for it. */
create or replace function trunkline._broker_forward_patiently(topic text)
returns int language plpgsql as $$
begin
  return trunkline.broker_forward(topic);
exception
  when lock_not_available or sqlstate 'TL404' then
    return 0;
  when others then
    raise warning 'topic "%" is not forwarded: % (%)', topic, sqlerrm, sqlstate;
    return 0;
end $$;
select trunkline._access('_broker_forward_patiently(text)', 'admin');
