"""The PostgreSQL that these tests share with those of a cluster."""

from tests.cluster.conftest import one_postgres, postgres

__all__ = ["one_postgres", "postgres"]
