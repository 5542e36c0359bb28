/* The log from psql, and so from any language: every step is a function call.

     psql "$TRUNKLINE_DSN" -X -q -f examples/plain_sql.sql
*/
\pset format unaligned
\pset tuples_only on

select trunkline.log_delete(topic) from trunkline.log_list() where topic = 'greetings';
\echo -- create a topic and append to it; the answer is partition, first and last offset
select t.topic, t.partitions from trunkline.log_create('greetings') t;
select * from trunkline.log_append_text('greetings', 'hello', key => 'en');
select * from trunkline.log_append_text('greetings', 'bonjour', key => 'fr', headers => '{"polite": true}');
select * from trunkline.log_append('greetings', 0, array['hallo', 'ciao']::bytea[]);

\echo -- read: no group, nothing is remembered
select log_offset, convert_from(key, 'UTF8') as key, convert_from(value, 'UTF8') as value, headers
  from trunkline.log_read('greetings', from_offset => 2);

\echo -- an assigned group: say that this process lives, join, read after the position, commit
select gen_random_uuid() as process \gset
select trunkline.lease_renew(:'process', 'plain_sql') > clock_timestamp() as living;
select partition, epoch, up_to from trunkline.log_join('greetings', 'translators', :'process') \gset
begin;
create temp table translated on commit drop as
select log_offset, upper(convert_from(value, 'UTF8')) as value
  from trunkline.log_read('greetings', :partition, :up_to + 1, max_messages => 3);
select * from translated;
select max(log_offset) as done from translated \gset
select from trunkline.log_commit('greetings', 'translators', :partition, :epoch, :done);
commit;
select group_name, partition, up_to, lag from trunkline.log_groups('greetings');

\echo -- a shared group: claim a range for a minute, read it, acknowledge it
select claim, first_offset, last_offset, attempts
  from trunkline.log_claim('greetings', 'counters', 0, max_messages => 2, deadline => '1 minute') \gset
\echo claimed :first_offset to :last_offset, attempt :attempts
select log_offset, length(value)
  from trunkline.log_read('greetings', 0, :first_offset, max_messages => :last_offset - :first_offset + 1);
select from trunkline.log_ack('greetings', 'counters', 0, :claim);
select group_name, up_to, lag, claims from trunkline.log_groups('greetings', 'counters');

\echo -- leave in good order: what this process owned is free at once
select trunkline.lease_end(:'process') as given_back;
