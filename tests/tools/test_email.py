"""`email` against aiosmtpd on loopback."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.events.outcomes import Outcome
from noetl.tools import email as tool
from noetl.tools.email import EmailTool
from tests.servers.certificates import make_certificates
from tests.servers.mail import MailServer
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, error, outcome_of, result

PASSWORD = "the password of ada"


class Mailbox:
    """What the server was handed. Recipients that begin with `full` are refused for now, `gone` forever."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Envelope, address: str, options: Any) -> str:  # noqa: N802
        if address.startswith("full"):
            return "452 4.2.2 mailbox full"
        if address.startswith("gone"):
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802
        self.envelopes.append(envelope)
        return "250 kept"

    def message(self) -> EmailMessage:
        content = self.envelopes[-1].content
        assert isinstance(content, bytes)
        found = message_from_bytes(content, policy=policy.default)
        assert isinstance(found, EmailMessage)
        return found


class Closing(Controller):
    """Ends its connections before its thread: the loop would complain of them otherwise."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.sessions: list[Any] = []

    def factory(self) -> Any:
        self.sessions.append(super().factory())  # type: ignore[no-untyped-call]
        return self.sessions[-1]

    def cut(self) -> None:
        """In the loop's thread, and waited for: what is aborted is closed in the loop's next round."""
        asyncio.run_coroutine_threadsafe(self._cut(), self.loop).result(60)

    async def _cut(self) -> None:
        for session in self.sessions:
            for transport in (session.transport, session._original_transport):
                if transport is not None:
                    transport.abort()
        await asyncio.sleep(0.05)


class Server:
    def __init__(self, folder: Path) -> None:
        files = make_certificates(folder)
        self.box, self.ca = Mailbox(), files.ca.read_text()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(files.cert, files.key)
        self.port = free_port()
        self.controller = Closing(
            self.box,
            hostname="127.0.0.1",
            port=self.port,
            authenticator=self._allowed,
            auth_required=True,
            tls_context=tls,
        )

    def _allowed(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        ok = isinstance(data, LoginPassword) and (data.login, data.password) == (b"ada@example.com", PASSWORD.encode())
        return AuthResult(success=ok, handled=False)

    @property
    def auth(self) -> dict[str, Any]:
        login = {"user": "ada@example.com", "password": PASSWORD}
        return {"host": "127.0.0.1", "port": self.port, "tls": "starttls", "ca": self.ca, **login}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.controller.start()
    yield server
    server.controller.cut()
    server.controller.stop()


async def sent(server: Server, /, **inputs: Any) -> Outcome:
    more = inputs.pop("more", {})
    given = {"to": "bob@example.com", "subject": "Hello", "text": "text", "auth": server.auth, **inputs}
    return await outcome_of(EmailTool(), {name: value for name, value in given.items() if value is not None}, **more)


async def test_a_message_arrives_with_both_bodies_and_its_attachments(server: Server, tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_text("a,b\n")
    attachments = [
        {"file": "report.csv"},
        {"name": "rows.json", "data": [1]},
        {"name": "x.bin", "data": "AP8=", "format": "base64"},
    ]

    done = result(
        await sent(
            server,
            to=["Bob <bob@example.com>", "carol@example.com"],
            bcc="dave@example.com",
            subject="Zahlen für März",
            text="näh",
            html="<b>näh</b>",
            attachments=attachments,
            headers={"X-Run": "7"},
            more={"data_folders": (str(tmp_path),)},
        )
    )

    found = server.box.message()
    assert done["accepted"] == ["bob@example.com", "carol@example.com", "dave@example.com"]
    assert server.box.envelopes[-1].rcpt_tos == done["accepted"]
    assert (found["subject"], found["from"], found["x-run"]) == ("Zahlen für März", "ada@example.com", "7")
    assert "dave" not in found.as_string()
    assert found.get_body(("plain",)).get_content().strip() == "näh"  # type: ignore[union-attr]
    assert found.get_body(("html",)).get_content().strip() == "<b>näh</b>"  # type: ignore[union-attr]
    kept = [
        (one.get_filename(), one.get_content_type(), one.get_payload(decode=True)) for one in found.iter_attachments()
    ]
    assert kept == [
        ("report.csv", "text/csv", b"a,b\n"),
        ("rows.json", "application/json", b"[1]"),
        ("x.bin", "application/octet-stream", b"\x00\xff"),
    ]


async def test_a_repeated_attempt_has_the_same_message_id(server: Server) -> None:
    first, again = [result(await sent(server))["message_id"] for _ in range(2)]
    other = result(await sent(server, more={"key": "another task"}))["message_id"]

    assert first == again != other


async def test_a_refused_recipient_is_reported_and_the_others_receive_the_message(server: Server) -> None:
    some = result(await sent(server, to="bob@example.com, gone@example.com"))
    nobody = error(await sent(server, to="gone@example.com"))
    later = error(await sent(server, to="full@example.com"))

    assert some["accepted"] == ["bob@example.com"]
    assert some["refused"][0]["code"] == 550
    assert (nobody.kind, nobody.code, nobody.retryable) == ("email.error", "550", False)
    assert (later.kind, later.code, later.retryable) == ("email.error", "452", True)


async def test_a_wrong_password_is_denied_with_the_code_of_the_server(server: Server) -> None:
    denied = error(await sent(server, auth={**server.auth, "password": "a wrong one"}))

    assert (denied.kind, denied.code) == ("email.denied", "535")
    assert "a wrong one" not in denied.message


async def test_a_server_with_an_untrusted_certificate_receives_no_password(server: Server) -> None:
    refused = error(await sent(server, auth={**server.auth, "ca": ""}))

    assert refused.kind == "email.error"
    assert "its certificate is not trusted here" in refused.message
    assert 'into the credential as "ca"' in refused.message
    assert server.box.envelopes == []


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"subject": "Hello\r\nBcc: eve@example.com"}, "header"),
        ({"headers": {"X-A": "b\r\nBcc: eve@example.com"}}, "header"),
        ({"headers": {"Bcc": "eve@example.com"}}, "cannot be set"),
        ({"to": "bob@example.com\r\nRCPT TO:<eve@example.com>"}, "no e-mail address"),
        ({"to": "nobody"}, "no e-mail address"),
        ({"to": f"{'é ' * 10_000}<bob@example.com>"}, "at most 10,000 characters"),
        ({"to": [f"bob{number:05}@example.com" for number in range(3_000)]}, "all of a message 50,000"),
        ({"subject": "é " * 500_000}, "at most 10,000 characters"),
        ({"headers": {"X-A": "é " * 500_000}}, "at most 10,000 characters"),
        ({"to": f"{'é ' * 400}<bob@example.com>"}, "a name of more than 500"),
        ({"to": "(" * 5_000}, "no e-mail address"),
        ({"to": ":;" * 1_000}, "no e-mail address"),
        ({"attachments": [{"name": "é" * 600, "data": "x"}]}, "at most 500"),
        ({"text": None}, "nothing to send"),
        ({"attachments": [{"file": "/etc/passwd"}]}, "outside the folders"),
        ({"attachments": [{"name": "big", "data": "x" * (26 << 20)}]}, "larger than"),
        ({"attachments": [{"name": "x", "data": "x", "media_type": "text/plain\r\nX: y"}]}, "not a media type"),
    ],
)
async def test_an_invalid_message_is_refused_before_anything_is_sent(
    server: Server, tmp_path: Path, inputs: dict[str, Any], said: str
) -> None:
    refused = error(await sent(server, **inputs, more={"data_folders": (str(tmp_path),)}))

    assert refused.kind == "email.input"
    assert said in refused.message
    assert server.box.envelopes == []


async def test_a_private_address_is_reached_only_if_the_policy_allows(server: Server) -> None:
    assert error(await sent(server, more={"addresses": AddressGuard(CLOSED)})).kind == "tool.not_allowed"


async def test_an_unreachable_server_is_retryable(server: Server) -> None:
    lost = error(await sent(server, auth={**server.auth, "port": free_port()}))

    assert (lost.kind, lost.retryable) == ("email.error", True)


async def test_a_connection_lost_in_the_middle_of_a_message_is_retryable(server: Server) -> None:
    with Proxy("127.0.0.1", server.port) as line:
        large = [{"name": "large.txt", "data": "x" * (4 << 20)}]
        running = asyncio.ensure_future(
            sent(server, auth={**server.auth, "port": line.port}, attachments=large, more={"key": "k"})
        )
        line.rate = 2 << 20  # slow enough that the message is under way when its line is cut
        while line.carried < 1 << 20:
            assert not running.done(), running.result()
            await asyncio.sleep(0.01)
        line.cut()
        lost = error(await running)
    again = result(await sent(server, attachments=large, more={"key": "k"}))

    assert (lost.kind, lost.retryable) == ("email.error", True)
    assert len(server.box.envelopes) == 1, "half a message is none"
    assert server.box.message()["message-id"] == again["message_id"]


async def test_no_secret_appears_in_an_error(server: Server) -> None:
    for secret in [secrets.token_urlsafe(12) for _ in range(50)]:
        failed = error(await sent(server, auth={**server.auth, "password": secret}))
        assert failed.kind == "email.denied"
        assert secret.encode() not in msgspec.json.encode(failed)


async def test_a_credential_check_sends_nothing(server: Server) -> None:
    said = await EmailTool().check({"auth": server.auth}, context())

    assert said == f"logged in to 127.0.0.1:{server.port}"
    assert server.box.envelopes == []


async def test_a_server_without_starttls_is_refused_with_the_setting() -> None:
    with MailServer() as mail:
        auth = {**mail.auth, "tls": "starttls"}
        outcome = await outcome_of(EmailTool(), {"to": "a@x.org", "subject": "s", "text": "t", "auth": auth})

    assert outcome.error is not None
    assert '"tls": "none"' in outcome.error.message
    assert not outcome.error.retryable
    assert mail.messages == []


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_session_closes_its_connection(server: Server, monkeypatch: pytest.MonkeyPatch, is_sent: bool) -> None:
    opened: list[socket.socket] = []

    class Session(tool._Session):
        def __init__(self, *, sock: socket.socket, **more: Any) -> None:
            opened.append(sock)
            super().__init__(sock=sock, **more)

    monkeypatch.setattr(tool, "_Session", Session)
    auth = server.auth if is_sent else {**server.auth, "password": "wrong"}

    outcome = await outcome_of(EmailTool(), {"to": "a@x.org", "subject": "s", "text": "t", "auth": auth})
    for _ in range(3):
        await asyncio.sleep(0)

    assert (outcome.error is None) is is_sent
    assert [one.fileno() for one in opened] == [-1]
