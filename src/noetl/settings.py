"""Settings: where things are kept. `NOETL_HOME` overrides the user's data folder (DEPENDENCIES §6)."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The folder of the default store."""
    chosen = os.environ.get("NOETL_HOME")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("noetl", appauthor=False)


def default_db() -> Path:
    """The file that `run`, `dev` and the reading commands share."""
    return home() / "noetl.db"


def results_folder(db: Path) -> Path:
    """Where the large results of a store are kept: beside it."""
    return db.with_name(db.name + ".results")
