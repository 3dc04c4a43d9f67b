"""Names in the package are plain, and public class names are used once (docs/style.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_no_old_name_is_used_and_public_class_names_are_unique() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "old_names.py"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_only_the_quantum_package_mentions_quantum_jobs() -> None:
    """The kind has its policy, its jobs and its stand-ins through what every tool kind may declare. The specification
    names one event after it, so that the log has the word. The two lists of built-in kinds name it, as any other."""
    knowing = {
        str(path.relative_to(ROOT / "src" / "noetl"))
        for path in (ROOT / "src" / "noetl").rglob("*.py")
        if "quantum" in path.read_text("utf-8").lower()
    }

    lists = {"tools/registry.py", "tools/kinds/__init__.py"}
    assert {path for path in knowing if not path.startswith("tools/quantum/")} == {"events/tasks.py", *lists}


def test_a_test_file_in_a_package_folder_is_named_after_a_module() -> None:
    """The tests of `engine/joins.py` are `tests/engine/test_joins.py`, or `test_joins_<aspect>.py`; those of a
    whole package stand beside its folder. Else, tests of joined and renamed modules stay under the old name.
    Behaviour over many packages is in folders that have the name of none, such as `tests/faults`."""
    package = ROOT / "src" / "noetl"
    files = [path.relative_to(ROOT / "tests") for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    mirrored = [path for path in files if (package / path.parts[0] / "__init__.py").is_file()]

    unnamed = [str(path) for path in mirrored if not _shown(path.stem.removeprefix("test_"), package / path.parent)]

    assert len(mirrored) > 200
    assert unnamed == []


def _shown(name: str, folder: Path) -> set[str]:
    """The modules and packages of a folder that tests of this name show."""
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    return {module for module in modules if name == module or name.startswith(f"{module}_")}
