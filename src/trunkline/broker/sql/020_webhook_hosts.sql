/* Which hosts and networks webhooks may be sent to, and what the source of CloudEvents may be. */

create domain trunkline.uri_reference as text check (value ~ '^([][A-Za-z0-9._~:/?#@!$&''()*+,;=-]|%[0-9A-Fa-f]{2})*$');
comment on domain trunkline.uri_reference is 'A URI or a part of one, as of RFC 3986; may be empty.';
update trunkline.config set type = 'trunkline.uri_reference' where name = 'broker.source';

insert into trunkline.config (name, value, default_value, type, minimum, description) values
  ('broker.webhook_hosts', '{}', '{}', 'text[]', null,
   'hosts that webhooks may be sent to, such as {hooks.shop.example,*.partner.example}; {}: all'),
  ('broker.webhook_networks', '{}', '{}', 'cidr[]', null,
   'private networks that webhooks may be sent to, such as {10.0.3.0/24}, besides public addresses');

/* It gets columns: what is created from its file must not stand beside the former one. */
drop function if exists trunkline._webhook_rules();
