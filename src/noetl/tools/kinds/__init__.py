"""The table of tool kinds: what each accepts, as data, for the checker, the editor's schema and the docs.

Nothing here imports a driver or knows how a kind runs; `tools/registry.py` does. Kinds of plug-ins are asked for
only when a name is not built in, since looking for installed packages costs more than checking a small file.

Read first: a small family such as `calls.py`, then `_ORDER` below, in which docs and completion list the kinds.
"""

from __future__ import annotations

from noetl.net.kinds import COMMON_SPEC, ToolKind
from noetl.tools.kinds import brokers, calls, code, data_frameworks, files, people_and_machines, sql, storage, web
from noetl.tools.kinds.plugins import OpenKinds

__all__ = ["COMMON_SPEC", "KINDS", "load_kinds"]

_ORDER = (
    "http python postgres duckdb ducklake iceberg delta sql snowflake noop log playbook workbook secrets quantum "
    "artifact storage gcs convert archive pgp nats redis mqtt amqp kafka transfer email slack teams llm mcp ssh sftp "
    "shell script container dbt dlt dask ray"
)
_FAMILIES = (web, sql, code, calls, storage, files, brokers, people_and_machines, data_frameworks)
_BY_NAME = {kind.name: kind for family in _FAMILIES for kind in family.KINDS}

KINDS: dict[str, ToolKind] = {name: _BY_NAME[name] for name in _ORDER.split()}


def load_kinds() -> OpenKinds:
    """The built-in kinds, with those of installed plug-ins beside them."""
    return OpenKinds(KINDS)
