"""Attack: a reader of an operator's screen, log or bug report looks for passwords in addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.base.redaction import without_password
from tests.cli.running import call


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://app:s3cret-word@db:5432/x", "postgresql://app:***@db:5432/x"),
        ("postgresql://app:s3cret/wo@rd@db:5432/x?sslmode=require", "postgresql://app:***@db:5432/x?sslmode=require"),
        (
            "postgresql://app@db/x?password=s3cret-word&sslmode=require",
            "postgresql://app@db/x?password=***&sslmode=require",
        ),
        (
            "postgresql:///x?host=/run/pg&user=a&PASSWORD=s3cret-word",
            "postgresql:///x?host=/run/pg&user=a&PASSWORD=***",
        ),
        ("nats://app:s3cret-word@one:4222,nats://app:s3cret-word@two:4222", "nats://app:***@two:4222"),
        ("nats://s3cret-word@broker:4222", "nats://***@broker:4222"),
        ("http://app:s3cret-word@noetl.example", "http://app:***@noetl.example"),
        ("s3://bucket/place?access_key=s3cret-word", "s3://bucket/place?access_key=***"),
        ("http://noetl.example:8082/under/a/path", "http://noetl.example:8082/under/a/path"),
        ("/home/ann/store.db", "/home/ann/store.db"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_no_command_shows_a_password_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NOETL_DB", "postgresql://app:s3cret-word@127.0.0.1:9/x")
    monkeypatch.setenv("NOETL_NATS", "nats://app:s3cret-word@127.0.0.1:9")
    monkeypatch.setenv("NOETL_SERVER", "http://app:s3cret-word@127.0.0.1:9")

    shown = "".join(
        out + err
        for _, out, err in (
            call("config", "show"),
            call("config", "show", "--origin", "-o", "json"),
            call("doctor"),
            call("doctor", "-o", "json"),
            call("executions"),
            call("executions", "--db", "postgresql://127.0.0.1:9/x?password=s3cret-word"),
        )
    )

    assert "nats://app:***@127.0.0.1:9" in shown
    assert "http://app:***@127.0.0.1:9" in shown
    assert "s3cret-word" not in shown
