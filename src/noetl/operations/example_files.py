"""The examples that ship with NoETL: finding them, and copying them into a project.

A wheel has them in `noetl/_examples`, a checkout in `examples/`, each with its tests beside it. This module imports
only `base`, so that the command line starts quickly. The web UI offers the examples as templates.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from noetl.base.diagnostics import TEST_SUFFIX
from noetl.base.errors import RefusedError

PLUGIN = "plugin"
_PREFIX = "examples/"  # of every example's path
_HIDDEN = frozenset({"broken"})  # it demonstrates the checker and cannot run


@dataclass(frozen=True)
class ExampleFile:
    """One example. `needs` names the examples whose playbooks it calls."""

    name: str
    summary: str
    file: Path
    needs: tuple[str, ...] = ()


def examples_folder() -> Path:
    """The folder of the examples; RefusedError if the installation has none."""
    package = Path(__file__).parent.parent
    # The wheel's folder first: above an installed package, `examples` may be a folder of something else.
    for place in (package / "_examples", package.parent.parent / "examples"):
        if (place / "hello.yaml").is_file():
            return place
    raise RefusedError("this installation has no examples: install NoETL from its wheel or a clone")


def example_files() -> list[ExampleFile]:
    """All examples, sorted by name."""
    files = sorted(examples_folder().glob("*.yaml"))
    return [_example(file) for file in files if file.stem not in _HIDDEN and not file.name.endswith(TEST_SUFFIX)]


def find_example(name: str) -> ExampleFile:
    known = {example.name: example for example in example_files()}
    if name not in known:
        raise RefusedError(f'there is no example "{name}"; there are {", ".join(sorted(known))}')
    return known[name]


def example_texts(name: str, folder: str) -> Iterator[tuple[str, str]]:
    """File names and texts of the example and of those it calls, with paths moved from `examples/` to `folder/`, then
    their tests, and the files of a folder with the name of an example, such as a dbt project."""
    example = find_example(name)
    for part in (example, *(find_example(needed) for needed in example.needs)):
        text = part.file.read_text(encoding="utf-8")
        yield part.file.name, re.sub(rf"(\bpath: ){_PREFIX}", rf"\g<1>{folder}/", text).replace(_PREFIX, "playbooks/")
        tests = part.file.with_suffix(TEST_SUFFIX)
        yield tests.name, tests.read_text(encoding="utf-8")
        for file in sorted(part.file.with_suffix("").rglob("*.*")):
            yield file.relative_to(part.file.parent).as_posix(), file.read_text(encoding="utf-8")


def copy_plugin(target: Path) -> list[Path]:
    """Copy the plug-in example as a project of its own; returns the written files."""
    source = examples_folder() / PLUGIN
    written = []
    for file in sorted(path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
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
    """The description of a playbook, else the first sentence of its opening comment."""
    if found := re.search(r"^  description: (.+)$", text, re.MULTILINE):
        return found[1].strip()
    lines = [line.lstrip("# ") for line in text.split("\n") if line.startswith("# ") and "$schema" not in line]
    return re.split(r"(?<=\.)\s|: noetl ", " ".join(lines), maxsplit=1)[0] if lines else ""
