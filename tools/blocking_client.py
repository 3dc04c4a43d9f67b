"""`make client`: writes the blocking client from the asynchronous one. A test shows that it is current."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import unasync

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "src" / "noetl" / "client"
MODULES = {"async_calls": "blocking_calls", "async_client": "blocking_client"}
# Replacements that unasync does not know. `asyncio.sleep` is imported by its name, and `time` has one of the same name.
NAMES = {
    **MODULES,
    "AsyncBaseTransport": "BaseTransport",
    "AsyncCalls": "Calls",
    "AsyncClient": "Client",
    "aiter_lines": "iter_lines",
    "aread": "read",
    "aclose": "close",
    "asyncio": "time",
}
_HEAD = '"""Generated from `{source}.py` by `make client`: edit that one.'


def blocking_modules() -> dict[Path, str]:
    """The text of each generated module."""
    with TemporaryDirectory() as folder:
        here, there = Path(folder, "from"), Path(folder, "to")
        here.mkdir()
        for source in MODULES:
            (here / f"{source}.py").write_text((CLIENT / f"{source}.py").read_text("utf-8"), "utf-8")
        rule = unasync.Rule(f"{here}/", f"{there}/", additional_replacements=NAMES)
        unasync.unasync_files([str(here / f"{source}.py") for source in MODULES], [rule])
        for source in MODULES:
            made = there / f"{source}.py"
            made.write_text(_with_origin(made.read_text("utf-8"), source), "utf-8")
        _format(there)
        return {CLIENT / f"{name}.py": (there / f"{source}.py").read_text("utf-8") for source, name in MODULES.items()}


def _with_origin(text: str, source: str) -> str:
    """The first docstring says where the module comes from instead of how it becomes another one."""
    first, rest = text.split("\n", 1)
    body = rest[rest.index('"""') + 3 :]
    return f'{_HEAD.format(source=source)}\n\n{first.removeprefix(chr(34) * 3)}\n"""{body}'


def _format(folder: Path) -> None:
    ruff, settings = Path(sys.executable).parent / "ruff", ["--config", str(ROOT / "pyproject.toml"), "--quiet"]
    subprocess.run([ruff, "check", "--select", "I,UP028", "--fix", "--unsafe-fixes", *settings, folder], check=True)
    subprocess.run([ruff, "format", *settings, folder], check=True)


def main() -> None:
    for place, text in blocking_modules().items():
        place.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
