"""Which texts of a material are secret: everything that does not merely say where and how (KEY-06)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.events.secret_materials import Material, secrets_in


@pytest.mark.req("KEY-06")
@pytest.mark.parametrize(
    ("fields", "secret"),
    [
        ({"value": "one text"}, {"one text"}),
        (
            {"type": "postgres", "host": "localhost", "database": "postgres", "user": "app", "password": "hunter22"},
            {"hunter22", "app:hunter22"},
        ),
        (
            {"dsn": "postgresql://app:p%40ss-word@db:5432/x"},
            {"postgresql://app:p%40ss-word@db:5432/x", "p%40ss-word", "p@ss-word"},
        ),
        (
            {"deep": {"keys": ["first-key", {"second": "second-key"}]}, "n": 1234567},
            {"first-key", "second-key", "1234567"},
        ),
        ({"flag": True, "none": None, "port": 5432}, set()),
    ],
)
def test_the_secret_texts_of_a_material(fields: dict[str, Any], secret: set[str]) -> None:
    assert set(secrets_in(Material(fields=fields))) == secret


@pytest.mark.req("KEY-06")
def test_a_key_of_many_lines_is_secret_line_by_line_too() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n-----END PRIVATE KEY-----\n"

    found = set(secrets_in(Material(fields={"private_key": key})))

    assert "MIIEvQIBADANBgkqhkiG9w0" in found
    assert key in found
    assert "short" not in found
