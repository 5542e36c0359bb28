/* Keys that another zone changed while a transaction here held them wait beside those from a clock that is ahead. */
alter table trunkline.kv_held add column reason text not null default 'clock' constraint kv_held_reason check (reason in ('clock', 'lock'));
comment on table trunkline.kv_held is 'Changes of other zones that wait here: for their time, or for a transaction that holds the key.';
comment on column trunkline.kv_held.reason is 'clock: the stamp is too far in the future. lock: an open transaction holds the key.';
drop function if exists trunkline._kv_take_in(jsonb, bigint);
drop function if exists trunkline.kv_apply(text, bigint, bigint, jsonb, jsonb, bigint);
drop function if exists trunkline.kv_held();
drop function if exists trunkline.kv_pulled(text);
drop function if exists trunkline.kv_status();
