"""`slack` and `teams`: one POST to a webhook, through the `http` tool and under its rules.

The address of a webhook is a secret: whoever has it can post. It comes from a credential and is never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.contract import ToolContext, ToolResult

_URLS = ("webhook_url", "url", "webhook", "value")
_CARD = "application/vnd.microsoft.card.adaptive"


class _WebhookTool:
    """`kind` is the kind's name, also in messages."""

    kind = ""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        body = self.body(inputs)
        url = webhook_of(inputs.get("auth"), context, kind=self.kind)
        if context.tool is None:
            raise ToolError("chat.input", "there are no other tools here")
        # The http tool shows addresses; this one is masked wherever it appears.
        secret = msgspec.structs.replace(context, masked=lambda text: _without(url, context.masked(text)))
        try:
            answer = await context.tool("http").run({"method": "POST", "url": url, "json": body}, secret)
        except ToolError as problem:
            raise self._service_error(problem, url) from None
        return ToolResult(result={"status": answer.result["status"], "response": answer.result["data"]})

    def body(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _service_error(self, problem: ToolError, url: str) -> ToolError:
        """The service's own words: Slack answers `invalid_payload`, `no_service`, … in the body."""
        status, data = problem.details.get("status"), problem.details.get("data")
        said = data if isinstance(data, str) and data else None
        code = (said or "").strip()[:80] or (str(status) if status else problem.details.get("code"))
        host = urlsplit(url).hostname
        if status is None:
            message = f"the webhook of {self.kind} at {host}: {_without(url, problem.message)}"
        else:
            message = f"the webhook of {self.kind} at {host} answered {status}" + (f": {code}" if said else "")
        return ToolError(problem.kind, message, retryable=problem.retryable, status=status, code=code)

    async def close(self) -> None:
        """Nothing is open: connections belong to the http tool."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


class SlackTool(_WebhookTool):
    kind = "slack"

    def body(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        given = {"text": inputs.get("text"), "blocks": inputs.get("blocks"), "thread_ts": inputs.get("thread")}
        body = {name: value for name, value in given.items() if value not in (None, "", [])}
        if "text" not in body and "blocks" not in body:
            raise ToolError("chat.input", 'there is nothing to post: write "text" or "blocks"')
        return body


class TeamsTool(_WebhookTool):
    kind = "teams"

    def body(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        card = inputs.get("card")
        if card is None:
            if not inputs.get("text"):
                raise ToolError("chat.input", 'there is nothing to post: write "text" or "card"')
            heading = {"type": "TextBlock", "text": str(inputs.get("title")), "weight": "Bolder", "size": "Medium"}
            text = {"type": "TextBlock", "text": str(inputs["text"]), "wrap": True}
            blocks = [heading, text] if inputs.get("title") else [text]
            card = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
        return {"type": "message", "attachments": [{"contentType": _CARD, "content": card}]}


def webhook_of(auth: Any, context: ToolContext, *, kind: str) -> str:
    """The URL of the webhook. ToolError `keychain.unresolved` where the credential has none."""
    given = connection_fields(auth, context, kind=kind, address="webhook_url")
    url = next((str(given[name]) for name in _URLS if given.get(name)), "")
    try:
        is_url = urlsplit(url).scheme in ("https", "http") and bool(urlsplit(url).hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise ToolError(UNRESOLVED, 'the credential has no "webhook_url" that is an https address')
    return url


def _without(url: str, text: str) -> str:
    parts = urlsplit(url)
    for secret in (url, f"{parts.path}?{parts.query}", parts.path):
        if len(secret) > 1:
            text = text.replace(secret, "…")
    return text
