"""Fixtures of the cluster tests: one PostgreSQL, which they may kill, and a database of it for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.backends import Postgres
from tests.cluster.ledgers import Effects


@pytest.fixture(scope="session")
def one_postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture
def postgres(one_postgres: Postgres) -> Postgres:
    one_postgres.renew()
    return one_postgres


@pytest.fixture
def effects() -> Iterator[Effects]:
    with Effects() as counting:
        yield counting
