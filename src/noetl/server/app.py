"""Every route behind the guard, every error in one shape, OpenAPI made from what routes declare."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fastapi import FastAPI

from noetl.base.distribution import own_version
from noetl.server.access.access import install as install_access
from noetl.server.guarded_router import components, include
from noetl.server.middleware import HeadAsGet, Observer, Shortcut
from noetl.server.problem_details import Unexpected
from noetl.server.problem_details import install as install_problems
from noetl.server.routes.orders import turn
from noetl.server.services import Services

# In this order: of two routes that fit a path, the first is taken. What is asked for most often is looked at first.
ROUTES = (
    "orders",
    "executions",
    "health",
    "docs",
    "documentation",
    "session",
    "tokens",
    "audit",
    "webhooks",
    "language",
    "authoring",
    "inputs",
    "run_history",
    "catalog",
    "outside",
    "limits",
    "tasks",
    "schedules",
    "cron",
    "triggers",
    "notifications",
    "inspection",
    "projection",
    "streams",
    "results",
    "tables",
    "schemas",
    "render",
    "credentials",
    "workers",
    "overview",
    "ui",
)


def build(services: Services) -> FastAPI:
    """The app over open services."""
    app = FastAPI(
        title="NoETL",
        version=own_version(),
        openapi_url=None,  # it is a route of ours, behind the guard like every other
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    install_problems(app)
    for name in ROUTES:
        include(app, import_module(f"noetl.server.routes.{name}").router)
    app.add_middleware(Shortcut, endpoints=[turn])
    app.add_middleware(Unexpected)  # inside of the gate, which writes its answers down and gives them their headers
    install_access(app, services.access)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Unexpected)  # and once more, should the gate itself break
    app.add_middleware(Observer, meters=services.listeners.meters)
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """Add the schemas of our Structs to what the framework knows."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = made()
            described.setdefault("components", {}).setdefault("schemas", {}).update(components())
            described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            described["security"] = [{"token": []}]
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
