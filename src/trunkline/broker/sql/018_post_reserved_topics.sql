/* Topics that start with "trunkline." are reserved, for a plain INSERT as well.  Events that are there are not checked. */
alter domain trunkline.event_topic drop constraint event_topic_check;
alter domain trunkline.event_topic add constraint event_topic_check
  check (value <> '' and length(value) <= 255 and value !~ '[[:cntrl:]]|^trunkline[.]' or trunkline._event_refuse(value, null, null)) not valid;
