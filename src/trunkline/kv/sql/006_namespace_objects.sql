/* Namespaces are objects.  Where all who may call a function have the privilege, nothing is looked up when they call it: the other namespaces are listed here. */
create table trunkline.kv_guarded (
  namespace text constraint kv_guarded_pkey primary key,
  append boolean not null,
  read boolean not null
);
comment on table trunkline.kv_guarded is 'Namespaces that do not give a privilege to all who may call the functions: each call looks for a grant.';
drop function if exists trunkline.kv_policies();
