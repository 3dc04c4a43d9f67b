"""HEAD: answered as GET would be, without the body. A live stream ends with its headers."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noetl.server.problem_details import StreamEndedError


class HeadAsGet:
    """So that each route that can be read can be asked about, whoever wrote it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        is_over = False

        async def send_head(message: Message) -> None:
            nonlocal is_over
            if message["type"] == "http.response.start":
                await send(message)
            elif not is_over:
                is_over = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                if message.get("more_body"):
                    raise StreamEndedError

        await self._app({**scope, "method": "GET"}, receive, send_head)
