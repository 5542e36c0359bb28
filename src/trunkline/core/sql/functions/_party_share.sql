/* Take part in sharing out resources, and learn what is yours: the place in the list, the epoch, and whether it is
   more than a fair share and should be given back.  Takes what nobody living owns in this life of the server, up to the share: the number of
   resources divided by that of living members, the rest to the first of them.  Writes nothing when nothing changed.
   TL423 without a living lease. */
create or replace function trunkline._party_share(party text, resources text[], process uuid, member text)
returns table (place int, epoch bigint, surplus boolean) language plpgsql as $$
declare
  before bigint := trunkline._epoch_floor((trunkline._incarnation_row()).incarnation);
  members int;
  my_rank int;
  share int;
  mine int;
  free text;
begin
  perform trunkline._lease_check_holder(process);
  if not trunkline._lease_living(process) then
    raise exception using errcode = 'TL423', message = format('process %s has no living lease.', coalesce(process::text, 'NULL')),
      hint = 'Call lease_renew() first, and every third of lease.ttl.', detail = jsonb_build_object('process', process)::text;
  end if;
  insert into trunkline.party (party, process, member)
  select _party_share.party, _party_share.process, _party_share.member
   where not exists (select from trunkline.party p where p.party = _party_share.party
                        and p.process = _party_share.process and p.member = _party_share.member)
  on conflict on constraint party_pkey do nothing;

  select count(*), count(*) filter (where (p.process, p.member) < (_party_share.process, _party_share.member)) into members, my_rank
    from trunkline.party p where p.party = _party_share.party and trunkline._lease_living(p.process);
  members := greatest(members, 1);  -- none when the lease ended, or the group was deleted, since we looked
  share := cardinality(resources) / members + (my_rank < cardinality(resources) % members)::int;

  select count(*) into mine from trunkline.owner o
   where o.resource = any (resources) and o.process = _party_share.process and o.member = _party_share.member and o.epoch > before;
  if mine < share then
    for free in
      select r.resource from unnest(resources) with ordinality r (resource, place) left join trunkline.owner o using (resource)
       where o.process is null or o.epoch <= before or not trunkline._lease_living(o.process) order by r.place
    loop
      exit when mine >= share;
      if trunkline._owner_take(free, process, member, clock_timestamp()) is not null then
        mine := mine + 1;
      end if;
    end loop;
  end if;

  return query
    select r.place::int, o.epoch, row_number() over (order by r.place) > share
      from unnest(resources) with ordinality r (resource, place) join trunkline.owner o using (resource)
     where o.process = _party_share.process and o.member = _party_share.member and o.epoch > before
     order by r.place;
end $$;
