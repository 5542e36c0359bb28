"""The version of this package, and the number of the schema that it needs."""

__version__ = "0.1.0"

SCHEMA = 1
"""What ``trunkline.compatibility()`` of the schema in this package returns as ``schema``."""
