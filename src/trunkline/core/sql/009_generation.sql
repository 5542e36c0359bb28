/* Lives that began before there were generations keep their number as theirs, if it fits: downstreams have it in their versions. */
alter table trunkline.incarnation add column generation int;
update trunkline.incarnation i set generation = i.incarnation
 where i.incarnation <= 32000 and not exists (select from trunkline.migration m where m.capability = 'core' and m.file = '008_post_first_life.sql');
