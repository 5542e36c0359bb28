"""The REST face of log, broker, tube and kv: their routes, and what these share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Depends

from trunkline.gateway import (
    broker,
    broker_groups,
    broker_handlers,
    broker_subscriptions,
    kv,
    log,
    log_dead,
    log_groups,
    objects,
    tube,
    webhooks,
)
from trunkline.gateway.callers import Callers
from trunkline.gateway.parameters import known_parameters

if TYPE_CHECKING:
    from fastapi import FastAPI

    from trunkline.gateway.gateway import Gateway


def add_to(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes to the application."""
    app.state.callers = Callers(gateway)
    for part in (
        *(log, log_dead, log_groups),
        *(broker, broker_groups, broker_handlers, broker_subscriptions),
        *(webhooks, tube, kv, objects),
    ):
        app.include_router(part.router, dependencies=[Depends(known_parameters)])
