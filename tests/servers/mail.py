"""A real mail server on loopback that keeps what it is handed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope

from tests.servers.ports import free_port


class MailServer:
    """Without TLS and login. `answer` is what it says to a message, and `unknown` are mailboxes that it does not have;
    sessions are cut when it stops."""

    def __init__(self, answer: str = "250 kept", unknown: Collection[str] = ()) -> None:
        self.answer, self.unknown, self.port = answer, unknown, free_port()
        self.envelopes: list[Envelope] = []
        self._controller = _Closing(self, hostname="127.0.0.1", port=self.port)

    @property
    def auth(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port, "tls": "none", "from": "noetl@example.org"}

    @property
    def messages(self) -> list[EmailMessage]:
        found = [message_from_bytes(one.content, policy=policy.default) for one in self.envelopes]  # type: ignore[arg-type]
        return [one for one in found if isinstance(one, EmailMessage)]

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.unknown:
            return "550 5.1.1 there is no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802
        if self.answer.startswith("250"):
            self.envelopes.append(envelope)
        return self.answer

    def __enter__(self) -> MailServer:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.cut()
        self._controller.stop()


class _Closing(Controller):
    """Ends its connections before its thread: the loop would complain of them otherwise."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._sessions: list[Any] = []

    def factory(self) -> Any:
        self._sessions.append(super().factory())  # type: ignore[no-untyped-call]
        return self._sessions[-1]

    def cut(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cut(), self.loop).result(60)

    async def _cut(self) -> None:
        for session in self._sessions:
            if session.transport is not None:
                session.transport.abort()
        await asyncio.sleep(0.05)
