/* Does an address belong to the public Internet, also where it wraps another one?  The sender has the same rule: addresses.py. */
create or replace function trunkline._webhook_public(address inet)
returns boolean language plpgsql immutable as $$
declare
  inner_one inet;
begin
  if family(address) = 4 then
    return not address <<= any (array['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '168.63.129.16/32', '169.254.0.0/16', '172.16.0.0/12',
      '192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/3']::inet[]);
  end if;
  inner_one := '0.0.0.0'::inet + ((address & '::ffff:ffff'::inet) - '::'::inet);
  if address <<= any (array['::ffff:0:0/96', '64:ff9b::/96']::inet[]) then
    return trunkline._webhook_public(inner_one);
  end if;
  return address <<= '2000::/3'::inet and not address <<= any (array['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']::inet[])
    and ((address & '::fdff:ffff:0:0'::inet) <> '::5efe:0:0'::inet or trunkline._webhook_public(inner_one));
end $$;
