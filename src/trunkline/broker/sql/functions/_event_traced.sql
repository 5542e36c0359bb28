/* Metadata with the trace that the caller is part of, if it has said so: set local trunkline.traceparent = '00-...'.
   What is no object is left for whoever refuses it.  An expression: part of whoever asks. */
create or replace function trunkline._event_traced(metadata jsonb)
returns jsonb language sql stable as $$
  select case when coalesce(current_setting('trunkline.traceparent', true), '') = '' or jsonb_typeof(metadata) <> 'object' then metadata
              else jsonb_build_object('traceparent', current_setting('trunkline.traceparent', true)) || coalesce(metadata, '{}') end;
$$;
