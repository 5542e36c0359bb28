"""The demonstration behind ``trunkline demo``: a small web shop's page views, end to end.

Two producers write page views. The group *counters* counts them into a table, exactly once, with
two members, one of which is killed on the way. The group *mailers* handles each of them with
readers that share the work; a few cannot be handled and end as dead letters.

Beside it a table of orders is written by plain SQL, with an event for each. A handler invoices
them, and a receiver of signed webhooks takes them over HTTP. A page shows those that are open,
live. A tube captures which rows changed; Spark joins when it is up and keeps a Delta table in step,
which is audited against the table. Two zones count visits and keep carts, each in a database of its
own, also while the line between them is cut. At the end every count is compared with what the
writers know.
"""
