/* Namespaces are objects, and kv_policies() returns their owners. */
drop function if exists trunkline.kv_policies();
