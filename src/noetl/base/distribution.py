"""The name under which this package is installed, and the other project that has its old name.

The import package and the command are `noetl`; the distribution is `noetl-engine`, because another project owns the
name `noetl` on PyPI. Both installed side by side write the same files.
"""

from __future__ import annotations

DISTRIBUTION = "noetl-engine"
OTHER = "noetl"


def own_version() -> str:
    from importlib.metadata import version  # slow to import

    return version(DISTRIBUTION)


def other_version() -> str | None:
    """The version of the other project called `noetl`, if it is installed here too."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(OTHER)
    except PackageNotFoundError:
        return None
