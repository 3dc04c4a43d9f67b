"""Permissions of routes: the table of roles, and the routes of the live application with their rules.

A route without a rule is closed. Routes are read from the application itself, so that none is forgotten (static files,
documentation, streams).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from noetl.operations.administration_shapes import Caller, Role, at_least

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class AccessRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which roles may call a route. The default is none."""

    roles: frozenset[Role] = frozenset()
    is_public: bool = False  # no token is needed
    takes_human_roles: bool = False  # a viewer with a role of human tasks may call it too
    is_audited: bool = False  # each request is recorded in the audit log; refused ones always are

    def admits(self, identity: Caller) -> bool:
        if self.is_public or identity.role in self.roles:
            return True
        return self.takes_human_roles and identity.role is Role.VIEWER and bool(identity.human_roles)


def _reading(role: Role, *others: Role) -> AccessRule:
    """A rule for requests that change nothing; they are not audited."""
    return AccessRule(roles=at_least(role) | frozenset(others))


def _changing(role: Role) -> AccessRule:
    return AccessRule(roles=at_least(role), is_audited=True)


CLOSED = AccessRule()  # the rule of a route without a row below
PUBLIC = AccessRule(is_public=True)
VIEWER, OPERATOR, AUTHOR, ADMIN = (_reading(role) for role in (Role.VIEWER, Role.OPERATOR, Role.AUTHOR, Role.ADMIN))
OPERATES, WRITES, ADMINISTERS = (_changing(role) for role in (Role.OPERATOR, Role.AUTHOR, Role.ADMIN))
VIEWER_OR_WORKER = _reading(Role.VIEWER, Role.WORKER)
WORKER = AccessRule(
    roles=frozenset({Role.WORKER})
)  # not audited: changes by workers are in the event log, with their names
WORKER_OR_ADMIN = AccessRule(roles=frozenset({Role.WORKER, Role.ADMIN}), is_audited=True)
TASKS = AccessRule(roles=at_least(Role.OPERATOR), takes_human_roles=True, is_audited=True)
SIGNS_IN = AccessRule(is_public=True, is_audited=True)  # the token, or the signature, is in the request itself
SIGNS_OUT = AccessRule(roles=at_least(Role.VIEWER), is_audited=True)

# The page of the web UI is served at the address of every screen. It contains no data, so it is public.
SCREENS = (
    "catalog",
    "executions",
    "tasks",
    "schedules",
    "triggers",
    "messages",
    "notifications",
    "workers",
    "credentials",
    "settings",
    "audit",
)

RULES: dict[tuple[str, str], AccessRule] = {
    **{("GET", f"/{screen}"): PUBLIC for screen in SCREENS},
    **{("GET", f"/{screen}/{{rest:path}}"): PUBLIC for screen in SCREENS},
    ("GET", "/"): PUBLIC,
    ("GET", "/favicon.svg"): PUBLIC,
    ("GET", "/assets/{name}"): PUBLIC,
    # sessions, tokens, audit
    ("POST", "/api/session"): SIGNS_IN,
    ("GET", "/api/session"): VIEWER,
    ("DELETE", "/api/session"): SIGNS_OUT,
    ("GET", "/api/sessions"): ADMIN,
    ("DELETE", "/api/sessions/{session_key}"): ADMINISTERS,
    ("GET", "/api/tokens"): ADMIN,
    ("POST", "/api/tokens"): ADMINISTERS,
    ("DELETE", "/api/tokens/{token_id}"): ADMINISTERS,
    ("GET", "/api/audit"): ADMIN,
    ("GET", "/api/audit/verify"): ADMIN,
    # webhooks
    ("GET", "/api/webhooks"): AUTHOR,
    ("POST", "/api/webhooks"): ADMINISTERS,
    ("DELETE", "/api/webhooks/{name}"): ADMINISTERS,
    ("POST", "/hooks/{hook_id}"): SIGNS_IN,
    # notifications
    ("GET", "/api/notifications"): VIEWER,
    ("GET", "/api/notifications/{notice_id}"): VIEWER,
    ("POST", "/api/notifications/retry"): OPERATES,
    ("POST", "/api/notifications/{notice_id}/retry"): OPERATES,
    ("GET", "/api/notification-rules"): AUTHOR,
    ("GET", "/api/notification-rules/{name}"): AUTHOR,
    ("PUT", "/api/notification-rules/{name}"): ADMINISTERS,
    ("DELETE", "/api/notification-rules/{name}"): ADMINISTERS,
    ("POST", "/api/notification-rules/{name}/test"): ADMINISTERS,
    # readable before signing in
    ("GET", "/api/health/live"): PUBLIC,
    ("GET", "/api/health/ready"): PUBLIC,
    # the API's own description, and what is measured
    ("GET", "/openapi.json"): VIEWER,
    ("GET", "/openapi"): VIEWER,
    ("GET", "/openapi/docs.js"): VIEWER,
    ("GET", "/openapi/docs.css"): VIEWER,
    ("GET", "/docs"): PUBLIC,
    ("GET", "/docs/{path:path}"): PUBLIC,
    ("GET", "/metrics"): VIEWER,
    # the catalogue, and the language
    ("GET", "/api/catalog"): VIEWER,
    ("GET", "/api/steps"): VIEWER,
    ("POST", "/api/catalog"): WRITES,
    ("GET", "/api/catalog/{path:path}"): VIEWER,
    ("GET", "/api/catalog/{path:path}/versions"): VIEWER,
    ("GET", "/api/catalog/{path:path}/versions/{version}"): VIEWER,
    ("GET", "/api/catalog/{path:path}/source"): VIEWER,
    ("GET", "/api/catalog/{path:path}/diff"): VIEWER,
    ("GET", "/api/catalog/{path:path}/certificate"): VIEWER,
    ("GET", "/api/catalog/{path:path}/inputs"): VIEWER,
    ("GET", "/api/catalog/{path:path}/runs"): VIEWER,
    ("POST", "/api/validate"): VIEWER,
    ("POST", "/api/names"): VIEWER,
    ("POST", "/api/analyze"): VIEWER,
    ("POST", "/api/inputs"): VIEWER,
    ("POST", "/api/cost"): VIEWER,
    ("POST", "/api/format"): VIEWER,
    ("POST", "/api/migrate"): VIEWER,
    ("POST", "/api/graph"): VIEWER,
    ("GET", "/api/schema"): VIEWER,
    ("GET", "/api/kinds"): VIEWER,
    ("GET", "/api/templates"): VIEWER,
    ("POST", "/api/steps/form"): VIEWER,
    ("POST", "/api/steps/change"): VIEWER,
    ("POST", "/api/steps/insert"): VIEWER,
    # executions
    ("GET", "/api/executions"): VIEWER,
    ("POST", "/api/executions"): OPERATES,
    ("POST", "/api/executions/draft"): WRITES,  # it runs a text of the caller's own
    ("POST", "/api/executions/step-test"): WRITES,  # as a draft
    ("GET", "/api/executions/failures"): VIEWER,
    ("POST", "/api/executions/bulk"): OPERATES,
    ("GET", "/api/executions/{execution_id}"): VIEWER,
    ("GET", "/api/executions/{execution_id}/events"): VIEWER,
    ("POST", "/api/executions/{execution_id}/events"): OPERATES,
    ("GET", "/api/executions/{execution_id}/tokens"): VIEWER,
    ("GET", "/api/executions/{execution_id}/result"): VIEWER,
    ("GET", "/api/executions/{execution_id}/result/part"): VIEWER,
    ("GET", "/api/executions/{execution_id}/result/file"): VIEWER,
    ("GET", "/api/executions/{execution_id}/ctx"): VIEWER,
    ("GET", "/api/executions/{execution_id}/vars"): VIEWER,
    ("GET", "/api/executions/{execution_id}/logs"): VIEWER,
    ("GET", "/api/executions/{execution_id}/output"): VIEWER,
    ("GET", "/api/executions/{execution_id}/steps"): VIEWER,
    ("GET", "/api/executions/{execution_id}/state"): VIEWER,
    ("GET", "/api/executions/{execution_id}/projection"): VIEWER,
    ("GET", "/api/executions/{execution_id}/loops"): VIEWER,
    ("GET", "/api/executions/{execution_id}/iteration"): VIEWER,
    ("GET", "/api/executions/{execution_id}/attempts"): VIEWER,
    ("GET", "/api/executions/{execution_id}/compare"): VIEWER,
    ("GET", "/api/executions/{execution_id}/step-inputs"): VIEWER,
    ("GET", "/api/executions/{execution_id}/attempts/{seq}/inputs"): VIEWER,
    ("GET", "/api/executions/{execution_id}/explain"): VIEWER,
    ("GET", "/api/executions/{execution_id}/graph"): VIEWER,
    ("GET", "/api/executions/{execution_id}/stream"): VIEWER,
    ("POST", "/api/executions/{execution_id}/pause"): OPERATES,
    ("POST", "/api/executions/{execution_id}/resume"): OPERATES,
    ("POST", "/api/executions/{execution_id}/cancel"): OPERATES,
    ("POST", "/api/executions/{execution_id}/rerun"): OPERATES,
    ("GET", "/api/stream"): VIEWER,
    ("GET", "/api/overview"): VIEWER,
    ("GET", "/api/stuck"): VIEWER,
    ("GET", "/api/trends"): VIEWER,
    ("POST", "/api/demo"): WRITES,  # it registers what it runs
    ("POST", "/api/render"): OPERATOR,  # a template of the caller's own, on recorded data
    ("GET", "/api/executions/{execution_id}/timers"): VIEWER,
    # messages, signals, timers, schedules, people
    ("GET", "/api/waits"): VIEWER,
    ("GET", "/api/messages"): VIEWER,
    ("POST", "/api/messages"): OPERATES,
    ("DELETE", "/api/messages"): OPERATES,
    ("DELETE", "/api/messages/{message_id:path}"): OPERATES,
    ("POST", "/api/signals"): OPERATES,
    ("GET", "/api/timers"): VIEWER,
    ("POST", "/api/timers/{timer_id}/cancel"): OPERATES,
    # how much of a playbook, or of a step, may run at once
    ("GET", "/api/limits"): VIEWER,
    ("PUT", "/api/limits/{path:path}"): OPERATES,
    ("DELETE", "/api/limits/{path:path}"): OPERATES,
    ("GET", "/api/executions/{execution_id}/limits"): VIEWER,
    ("PUT", "/api/executions/{execution_id}/limits/{step:path}"): OPERATES,
    ("DELETE", "/api/executions/{execution_id}/limits/{step:path}"): OPERATES,
    ("GET", "/api/incidents"): OPERATOR,
    ("GET", "/api/cron"): VIEWER,
    ("GET", "/api/schedules"): VIEWER,
    ("GET", "/api/schedules/{path:path}"): VIEWER,
    ("POST", "/api/schedules/{path:path}/pause"): OPERATES,
    ("POST", "/api/schedules/{path:path}/resume"): OPERATES,
    ("POST", "/api/schedules/{path:path}/backfill"): OPERATES,
    ("GET", "/api/triggers"): VIEWER,
    ("POST", "/api/triggers"): ADMINISTERS,
    ("GET", "/api/triggers/{name}"): VIEWER,
    ("DELETE", "/api/triggers/{name}"): ADMINISTERS,
    ("POST", "/api/triggers/{name}/pause"): OPERATES,
    ("POST", "/api/triggers/{name}/resume"): OPERATES,
    ("GET", "/api/triggers/{name}/dead-letters"): VIEWER,
    ("POST", "/api/triggers/{name}/dead-letters/retry"): OPERATES,
    ("DELETE", "/api/triggers/{name}/dead-letters"): OPERATES,
    ("GET", "/api/tasks"): VIEWER,
    ("GET", "/api/tasks/{task_id}"): VIEWER,
    ("POST", "/api/tasks/{task_id}/claim"): TASKS,
    ("POST", "/api/tasks/{task_id}/release"): TASKS,
    ("POST", "/api/tasks/{task_id}/comment"): TASKS,
    ("POST", "/api/tasks/{task_id}/complete"): TASKS,
    # credentials: values go in, names and fingerprints come out
    ("GET", "/api/credentials"): AUTHOR,
    ("PUT", "/api/credentials/{name}"): ADMINISTERS,
    ("DELETE", "/api/credentials/{name}"): ADMINISTERS,
    ("POST", "/api/credentials/rotate"): ADMINISTERS,
    ("POST", "/api/credentials/{name}/test"): ADMINISTERS,
    # workers and pools
    ("GET", "/api/pools"): VIEWER,
    ("PUT", "/api/pools/{name}"): ADMINISTERS,
    ("GET", "/api/workers"): VIEWER,
    ("POST", "/api/workers"): WORKER,
    ("DELETE", "/api/workers/{worker_id:path}"): WORKER_OR_ADMIN,
    ("POST", "/api/workers/{worker_id:path}/drain"): OPERATES,
    ("POST", "/api/workers/{worker_id:path}/resume"): OPERATES,
    ("POST", "/api/orders/turn"): WORKER,
    ("POST", "/api/orders/heartbeat"): WORKER,
    ("POST", "/api/orders/secret"): WORKER,
    ("POST", "/api/orders/output"): WORKER,
    ("POST", "/api/orders/call"): WORKER,
    ("POST", "/api/orders/give-up"): WORKER,
    ("GET", "/api/nets/{net_hash}"): WORKER,
    ("GET", "/api/results/{checksum}"): VIEWER_OR_WORKER,
    ("PUT", "/api/results/{checksum}"): WORKER,
    ("GET", "/api/results/{checksum}/table"): VIEWER_OR_WORKER,
    ("PUT", "/api/results/{checksum}/table"): WORKER,
    ("GET", "/api/results/{checksum}/rows"): VIEWER,
    ("GET", "/api/results/{checksum}/part"): VIEWER,
    ("GET", "/api/schemas"): VIEWER,
    ("GET", "/api/schemas/{name}"): VIEWER_OR_WORKER,
    ("PUT", "/api/schemas/{name}"): WRITES,
}


def rule_for(method: str, template: str) -> AccessRule | None:
    """The rule of a route; HEAD has the rule of GET."""
    return RULES.get(("GET" if method == "HEAD" else method, template))


ANYTHING_BELOW = "/{path:path}"
# A catch-all route. The gate leaves it out, since it answers unknown paths itself.
_EVERYTHING = re.compile(r"/\{\w+:path\}")


class ProtectedRoute(msgspec.Struct, frozen=True):
    """One route of the application. `methods` is None for a mounted application, which checks methods itself."""

    template: str
    methods: frozenset[str] | None
    pattern: re.Pattern[str]
    endpoint: Any

    def accepts(self, method: str) -> bool:
        return self.methods is None or method in self.methods

    def rule(self, method: str) -> AccessRule:
        return rule_for(method, self.template) or CLOSED


class RouteTable:
    """Finds the route that the application will use: the first one that matches."""

    def __init__(self, app: FastAPI) -> None:
        self._patterns: list[ProtectedRoute] = []
        self._plain: dict[str, list[ProtectedRoute]] = {}
        for route in protected_routes(app):
            # A fixed path is looked up by name only if no earlier pattern matches it: the application uses the first
            # route that matches.
            if "{" not in route.template and not any(
                earlier.pattern.match(route.template) for earlier in self._patterns
            ):
                self._plain.setdefault(route.template, []).append(route)
            else:
                self._patterns.append(route)

    def find(self, method: str, path: str) -> tuple[ProtectedRoute | None, frozenset[str]]:
        """The route, or None and the methods that this path supports."""
        others: set[str] = set()
        for route in self._candidates(path):
            if route.accepts(method):
                return route, frozenset()
            others |= route.methods or set()
        return None, frozenset(others)

    def _candidates(self, path: str) -> Iterator[ProtectedRoute]:
        yield from self._plain.get(path, ())
        yield from (route for route in self._patterns if route.pattern.match(path))


def protected_routes(app: FastAPI) -> list[ProtectedRoute]:
    """Every HTTP route of the application, in the order of registration."""
    routes = []
    for route in iter_route_contexts(app.routes):
        if route.path is None or _EVERYTHING.fullmatch(route.path):
            continue
        is_mounted = route.methods is None
        template = route.path.rstrip("/") + ANYTHING_BELOW if is_mounted else route.path
        methods = None if route.methods is None else frozenset(route.methods)
        routes.append(ProtectedRoute(template, methods, route.path_regex, route.endpoint if not is_mounted else None))
    return routes
