"""`slack` and `teams`: one POST to a webhook, through the `http` tool and under its rules.

The URL of a webhook is a secret: every holder can post. It comes from a credential and is never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.input_shapes import UNRESOLVED, connection_fields

_URLS = ("webhook_url", "url", "webhook", "value")
_CARD = "application/vnd.microsoft.card.adaptive"


class _WebhookTool(Tool):
    """Posts the body that a subclass makes. `kind` is the name of the kind, also in messages."""

    kind = ""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        body = self.body(inputs)
        url = webhook_of(inputs.get("auth"), context, kind=self.kind)
        answer = await self._request({"method": "POST", "url": url, "json": body}, context)
        return ToolResult(result={"status": answer.result["status"], "response": answer.result["data"]})

    async def _request(self, request: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.tool is None:
            raise ToolError("chat.input", "there are no other tools here")
        url = str(request["url"])
        # The http tool shows URLs in its messages; this one is masked wherever it appears.
        secret = msgspec.structs.replace(context, mask=lambda text: _without_url(url, context.mask(text)))
        try:
            return await context.tool("http").run(request, secret)
        except ToolError as problem:
            raise self._service_error(problem, url) from None

    def body(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _service_error(self, problem: ToolError, url: str) -> ToolError:
        """The error with the message of the service: Slack answers `invalid_payload`, `no_service`, … in the body."""
        status, data = problem.details.get("status"), problem.details.get("data")
        reply = data if isinstance(data, str) and data else None
        # Unprintable characters, such as terminal colours, are left out: the message is shown without escaping.
        code = "".join(char for char in (reply or "").strip()[:80] if char.isprintable()) or (
            str(status) if status else problem.details.get("code")
        )
        host = urlsplit(url).hostname
        if status is None:
            message = f"the webhook of {self.kind} at {host}: {_without_url(url, problem.message)}"
        else:
            message = f"the webhook of {self.kind} at {host} answered {status}" + (f": {code}" if reply else "")
        return ToolError(problem.kind, message, retryable=problem.retryable, status=status, code=code)


# Slack's response to a message without text, if the webhook exists.
_EMPTY_MESSAGE = ("no_text", "invalid_payload", "missing_text_or_fallback_or_attachments")


class SlackTool(_WebhookTool):
    kind = "slack"

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether Slack knows the webhook: it is sent an empty message, which Slack refuses. Nothing is posted."""
        url = webhook_of(inputs.get("auth"), context, kind=self.kind)
        try:
            await self._request({"method": "POST", "url": url, "json": {}}, context)
        except ToolError as problem:
            if problem.details.get("status") != 400 or problem.details.get("code") not in _EMPTY_MESSAGE:
                raise
        return f"{urlsplit(url).hostname} knows the webhook; nothing was posted"

    def body(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        fields = {"text": inputs.get("text"), "blocks": inputs.get("blocks"), "thread_ts": inputs.get("thread")}
        body = {name: value for name, value in fields.items() if value not in (None, "", [])}
        if "text" not in body and "blocks" not in body:
            raise ToolError("chat.input", 'there is nothing to post: write "text" or "blocks"')
        return body


class TeamsTool(_WebhookTool):
    kind = "teams"

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test whether the URL answers. Nothing is posted: a workflow accepts every message."""
        url = webhook_of(inputs.get("auth"), context, kind=self.kind)
        try:
            await self._request({"method": "GET", "url": url}, context)
        except ToolError as problem:
            # A workflow is started by POST alone: any response to GET shows that it exists.
            status = problem.details.get("status")
            if not isinstance(status, int) or not 400 <= status < 500:
                raise
        return f"reached {urlsplit(url).hostname}; only a message shows whether its workflow posts"

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
    """The URL of the webhook. Raises ToolError `keychain.unresolved` if the credential has none."""
    fields = connection_fields(auth, context, kind=kind, address="webhook_url")
    url = next((str(fields[name]) for name in _URLS if fields.get(name)), "")
    try:
        is_url = urlsplit(url).scheme in ("https", "http") and bool(urlsplit(url).hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise ToolError(UNRESOLVED, 'the credential has no "webhook_url" that is an https address')
    return url


def _without_url(url: str, text: str) -> str:
    parts = urlsplit(url)
    # The path alone is enough to post, so it is removed even where a message shows it without the host.
    for secret in (url, f"{parts.path}?{parts.query}", parts.path):
        if len(secret) > 1:
            text = text.replace(secret, "…")
    return text
