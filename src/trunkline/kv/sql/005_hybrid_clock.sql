/* All zones judge times by one clock: each keeps how far it is from its own. */
alter table trunkline.kv_clock add column lead bigint not null default 0;
comment on column trunkline.kv_clock.lead is 'Microseconds that the hybrid clock is ahead of the clock of this server.';
comment on column trunkline.kv_clock.ahead is 'How far this clock is ahead of most others, where that is too far; it holds for five minutes after ahead_at.';
update trunkline.config set description = 'how far a clock may be ahead of most others before it stamps nothing, and what it stamped is held back elsewhere' where name = 'kv.max_skew';
