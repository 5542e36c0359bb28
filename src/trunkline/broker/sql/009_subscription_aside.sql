/* Subscriptions whose rows somebody held when they were to be set aside: the matcher leaves them out and waits for nobody.  They are
   quarantined when their rows are free.  No foreign key: to write here must not wait for the row either. */
create table trunkline.broker_subscription_aside (
  subscription bigint constraint broker_subscription_aside_pkey primary key,
  error text not null,
  error_position bigint,
  matched bigint not null,
  at timestamptz not null default clock_timestamp()
);
comment on table trunkline.broker_subscription_aside is 'Subscriptions that go into quarantine as soon as nobody holds their rows; until then they are not matched.';
comment on column trunkline.broker_subscription_aside.matched is 'The last position that was matched for them.';
