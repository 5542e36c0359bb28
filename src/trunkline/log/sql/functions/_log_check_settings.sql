/* Refuse settings of a topic that make no sense. */
create or replace function trunkline._log_check_settings(settings trunkline.log_topic)
returns void language plpgsql immutable as $$
begin
  if settings.partitions is null or settings.partitions not between 1 and 1024 then
    raise exception using errcode = 'TL422', message = format('partitions must be between 1 and 1024, got %s.', coalesce(settings.partitions::text, 'NULL'));
  elsif settings.retention <= interval '0' or settings.retention > interval '1000 years' then
    raise exception using errcode = 'TL422', message = format('retention must be positive and at most 1000 years, or NULL (keep for ever), got %s.', settings.retention);
  elsif settings.retention_bytes <= 0 then
    raise exception using errcode = 'TL422', message = format('retention_bytes must be positive or NULL (no limit), got %s.', settings.retention_bytes);
  elsif settings.codec is null or settings.codec not in ('none', 'zstd') then
    raise exception using errcode = 'TL422', message = format('codec must be "none" or "zstd", got %s.', coalesce(quote_literal(left(settings.codec, 80)), 'NULL'));
  elsif settings.compact is null or settings.early_release is null or settings.archive is null then
    raise exception using errcode = 'TL422', message = 'compact, early_release and archive must be true or false, got NULL.';
  elsif settings.compact and settings.codec <> 'none' then
    raise exception using errcode = 'TL422', message = 'a compacted topic keeps codec "none".', hint = 'The server compacts it and cannot read zstd.';
  elsif settings.compact and settings.archive then
    raise exception using errcode = 'TL422', message = 'a compacted topic cannot be archived.',
      hint = 'It holds the last value of each key and changes; what is archived must not.';
  end if;
end $$;
