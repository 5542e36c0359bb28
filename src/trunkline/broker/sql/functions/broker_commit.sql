/* Say that everything of a lane up to a delivery is done.  In the transaction of the effect, the effect is exactly once.
   Never goes back: broker_seek() does.  The epoch is checked as the last statement and holds until commit: TL423 when
   another process took over.  Errors: TL404, TL422 a delivery that does not exist yet, TL423. */
create or replace function trunkline.broker_commit(group_name text, handler text, lane int, epoch bigint, up_to bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._broker_cut(group_name, handler, lane, epoch, up_to, null);
end $$;
comment on function trunkline.broker_commit(text, text, int, bigint, bigint) is 'Say that everything of a lane up to a delivery is done.';
select trunkline._access('broker_commit(text, text, int, bigint, bigint)', 'reader');
