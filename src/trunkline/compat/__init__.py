"""Schemas in which the statements of other systems work as printed.

``sql/<schema>.sql`` is one schema: functions with the caller's rights, and views over the functions
of ``trunkline``. ``trunkline.core.compat`` installs them.
"""
