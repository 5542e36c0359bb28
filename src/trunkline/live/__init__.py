"""Tables that clients subscribe to, under row-level security."""
