"""The examples that ship with NoETL: finding them, and copying them into a project.

In a wheel they lie in `noetl/_examples`, in a checkout in `examples/`, each with its tests beside it. Nothing
here imports more than `base`, so that the command line stays quick. The web UI offers them as templates.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from noetl.base.errors import RefusedError
from noetl.base.source import TEST_SUFFIX

PLUGIN = "plugin"
_PREFIX = "examples/"  # of every example's path
_HIDDEN = frozenset({"broken"})  # it cannot run, and is there to show the checker


@dataclass(frozen=True)
class ExampleFile:
    """One example. `needs` are the examples whose playbooks it calls."""

    name: str
    summary: str
    file: Path
    needs: tuple[str, ...] = ()


def examples_folder() -> Path:
    """Where the examples lie; RefusedError where an installation came without them."""
    package = Path(__file__).parent.parent
    for place in (package / "_examples", package.parent.parent / "examples"):
        if (place / "hello.yaml").is_file():
            return place
    raise RefusedError("this installation has no examples: install NoETL from its wheel or a clone")


def example_files() -> list[ExampleFile]:
    """All of them, by name."""
    files = sorted(examples_folder().glob("*.yaml"))
    return [_example(file) for file in files if file.stem not in _HIDDEN and not file.name.endswith(TEST_SUFFIX)]


def find_example(name: str) -> ExampleFile:
    known = {one.name: one for one in example_files()}
    if name not in known:
        raise RefusedError(f'there is no example "{name}"; there are {", ".join(sorted(known))}')
    return known[name]


def example_texts(name: str, folder: str) -> Iterator[tuple[str, str]]:
    """File names and texts of the example and of those it calls, their paths moved from `examples/` to `folder/`; their
    tests; and the files of the folder that is called like an example, such as a dbt project."""
    one = find_example(name)
    for part in (one, *(find_example(needed) for needed in one.needs)):
        text = part.file.read_text(encoding="utf-8")
        yield part.file.name, re.sub(rf"(\bpath: ){_PREFIX}", rf"\g<1>{folder}/", text).replace(_PREFIX, "playbooks/")
        tests = part.file.with_suffix(TEST_SUFFIX)
        yield tests.name, tests.read_text(encoding="utf-8")
        for file in sorted(part.file.with_suffix("").rglob("*.*")):
            yield file.relative_to(part.file.parent).as_posix(), file.read_text(encoding="utf-8")


def copy_plugin(target: Path) -> list[Path]:
    """The plug-in example as a project of its own; the files that were written."""
    source = examples_folder() / PLUGIN
    written = []
    for file in sorted(one for one in source.rglob("*") if one.is_file() and "__pycache__" not in one.parts):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
        written.append(place)
    return written


def _example(file: Path) -> ExampleFile:
    text = file.read_text(encoding="utf-8")
    called = re.findall(rf"\bpath: {_PREFIX}(\w+)", text)
    needs = tuple(dict.fromkeys(name for name in called if name != file.stem))
    return ExampleFile(file.stem, _summary(text), file, needs)


def _summary(text: str) -> str:
    """Its description, else the first sentence of its opening comment."""
    if found := re.search(r"^  description: (.+)$", text, re.MULTILINE):
        return found[1].strip()
    lines = [line.lstrip("# ") for line in text.split("\n") if line.startswith("# ") and "$schema" not in line]
    return re.split(r"(?<=\.)\s|: noetl ", " ".join(lines), maxsplit=1)[0] if lines else ""
