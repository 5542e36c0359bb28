"""Help for the tests of those who build on Trunkline."""

from trunkline.testing.crashes import CrashReport, HandlerCall, crash_handlers
from trunkline.testing.handlers import Outcome, run_handlers
from trunkline.testing.waiting import eventually, wait_until

__all__ = [
    "CrashReport",
    "HandlerCall",
    "Outcome",
    "crash_handlers",
    "eventually",
    "run_handlers",
    "wait_until",
]
