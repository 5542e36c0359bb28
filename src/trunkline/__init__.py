"""Everything event-driven on one Postgres."""

__version__ = "0.1.0"
