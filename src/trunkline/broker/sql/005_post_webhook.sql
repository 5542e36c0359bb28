/* The log of webhooks leaves with its slots. */
select trunkline._ring_create('webhook_log', '_webhook_log_may_leave', 12, '1 day');
