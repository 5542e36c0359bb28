/* The role that configured something: what it configured runs as this role. */
alter table trunkline.tube add column role name;
comment on column trunkline.tube.role is 'The role that set the condition.';
alter table trunkline.tube_table add column role name;
comment on column trunkline.tube_table.role is 'The role that attached the table.';
alter table trunkline.tube_downstream add column role name;
comment on column trunkline.tube_downstream.role is 'The role that set the downstream.';

/* Only an owner could attach a table, and only one who owned them all could change the condition of their tube.  Who set a downstream is not
   known: it has to be set again. */
update trunkline.tube_table a set role = pg_get_userbyid(c.relowner) from pg_class c where c.oid = a.relation;
update trunkline.tube t set role = o.role
  from (select a.tube_id, min(a.role) as role from trunkline.tube_table a where a.detached_at is null group by 1 having count(distinct a.role) = 1) o
 where o.tube_id = t.tube_id and t.condition is not null;
drop function if exists trunkline.tube_downstreams();
