"""`noetl migrate`: what goes where, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from noetl.base.diagnostics import Source
from noetl.cli.migrate import command
from noetl.language.checking import check
from noetl.tools.kinds import load_kinds
from tests import quick_yaml
from tests.language.migrating.migrated import HEAD, compiled, fixture
from tests.language.migrating.random_playbooks import Playbooks, text_of
from tests.volume import one_in

pytestmark = pytest.mark.req("CLI-03", "MIG-03")

TESTS = Path(__file__).parents[1]
FOLDERS = ("corpus", "fixtures", "golden/check/err", "golden/check/ok", "../examples")
KINDS = load_kinds()


def write(folder: Path, text: str) -> Path:
    path = folder / "playbook.yaml"
    path.write_text(text)
    return path


def test_the_migrated_text_goes_to_standard_output_and_checks_as_v10(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-000-E"))

    result = CliRunner().invoke(command, [str(path)])

    assert result.exit_code == 0
    assert compiled(result.stdout)[0].api_version == "noetl.io/v10"
    assert path.read_text() == fixture("F-000-E")


def test_write_puts_the_migrated_text_into_the_file_once(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-001-D"))

    first = CliRunner().invoke(command, ["--write", str(path)])
    written = path.read_text()
    second = CliRunner().invoke(command, ["--write", str(path)])

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert written.startswith("apiVersion: noetl.io/v10")
    assert path.read_text() == written
    assert "migrated to v10" in first.stderr
    assert second.stderr == ""
    assert list(tmp_path.iterdir()) == [path]


def test_rules_that_cannot_be_migrated_are_reported_and_nothing_is_written(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-002-C"))

    result = CliRunner().invoke(command, ["--write", str(path)])

    assert result.exit_code == 1
    assert path.read_text() == fixture("F-002-C")
    assert result.stdout == ""
    assert f"{path}:9:7: not migrated: eval_mode: on_event" in result.stderr
    assert "help: write wait blocks" in result.stderr


def test_force_writes_the_migratable_rest(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-002-C"))

    result = CliRunner().invoke(command, ["--write", "--force", str(path)])

    assert result.exit_code == 1
    assert path.read_text().startswith("apiVersion: noetl.io/v10")


def test_an_invalid_playbook_is_left_unchanged(tmp_path: Path) -> None:
    text = HEAD + "workflow: [{step: start, next: nowhere}]\n"
    path = write(tmp_path, text)

    result = CliRunner().invoke(command, ["--write", str(path)])

    assert result.exit_code == 3
    assert "E_NEXT_REF" in result.stderr
    assert path.read_text() == text


def test_a_diff_shows_the_changes(tmp_path: Path) -> None:
    path = write(tmp_path, fixture("F-001-D"))

    result = CliRunner().invoke(command, ["-o", "diff", str(path)])

    assert "-apiVersion: noetl.io/v2" in result.stdout
    assert "+apiVersion: noetl.io/v10" in result.stdout


def test_migrating_a_folder_prints_a_table_with_each_file(tmp_path: Path) -> None:
    texts = {
        "a": fixture("F-001-D"),
        "b": fixture("F-004-H"),
        "c": fixture("F-002-C"),
        "d": HEAD + "workflow: [{step: start, next: nowhere}]\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)

    result = CliRunner().invoke(command, [str(tmp_path)])

    rows = [line.replace(f"{tmp_path}/", "").split(None, 1) for line in result.stdout.splitlines()]
    assert [name for name, _ in rows[:4]] == ["a.yaml", "b.yaml", "c.yaml", "d.yaml"]
    said = [rest for _, rest in rows[:4]]
    assert [said[0].split()[0], said[1].strip()] == ["migrated", "already v10"]
    assert said[2].startswith("needs a person")
    assert "eval_mode: on_event" in said[2]
    assert said[3].startswith("refused")
    assert "E_NEXT_REF" in said[3]
    assert result.stdout.splitlines()[-1] == "4 files: 1 already v10, 1 migrated, 1 needs a person, 1 refused"
    assert result.exit_code == 3
    assert {name: (tmp_path / f"{name}.yaml").read_text() for name in texts} == texts


def given(path: Path) -> str | None:
    """What the command prints for a file, where it ends with 0."""
    result = CliRunner().invoke(command, [str(path)])
    assert result.exit_code in (0, 1, 3), result.output
    assert result.exit_code == 0 or result.stdout == "", path
    return result.stdout if result.exit_code == 0 else None


def is_accepted(text: str) -> bool:
    return check(Source("test.yaml", text), kinds=KINDS, extensions=True, proofs=False).ok


@pytest.mark.req("MIG-06")
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_text_printed_with_exit_code_0_passes_the_check(folder: str) -> None:
    others = {".expect", ".test"}  # what a run is expected to do, and tests of a playbook
    files = [path for path in sorted((TESTS / folder).rglob("*.yaml")) if not others & set(path.suffixes)]
    texts = {path: given(path) for path in one_in(3, files)}

    assert [path.name for path, text in texts.items() if text is not None and not is_accepted(text)] == []
    assert any(text is not None for text in texts.values())


def places(node: Any) -> Iterator[Any]:
    """Every mapping and list with something in it."""
    if isinstance(node, dict | list) and node:
        yield node
        for inner in node.values() if isinstance(node, dict) else node:
            yield from places(inner)


def damaged(document: dict[str, Any], random: Random) -> str:
    """The document with some of its parts left out, doubled, or in another place."""
    changed = quick_yaml.loaded(text_of(document))
    for _ in range(random.randint(1, 3)):
        node, other = (random.choice(list(places(changed))) for _ in range(2))
        key = random.choice(list(node)) if isinstance(node, dict) else random.randrange(len(node))
        part = node.pop(key) if random.random() < 0.6 else node[key]
        copied = quick_yaml.loaded(text_of({"part": part}))["part"]
        if random.random() < 0.5 and isinstance(other, dict):
            other[str(key)] = copied
        elif isinstance(other, list):
            other.append(copied)
    return text_of(changed)


@pytest.mark.req("MIG-06")
@pytest.mark.parametrize("dialect", ["v2-case", "v2-eval"])
def test_a_damaged_playbook_is_never_migrated_to_an_invalid_text(dialect: str, tmp_path: Path) -> None:
    found = []
    for seed in one_in(3, range(40)):
        playbooks = Playbooks(seed)
        text = damaged(playbooks.document(dialect, usual=False), playbooks.random)
        new = given(write(tmp_path, text))
        found += [(seed, new)] if new is not None and not is_accepted(new) else []

    assert found == []


HEADED = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t/t}\nworkflow:\n"


@pytest.mark.req("MIG-06", "DOC-01")
def test_a_key_that_is_written_twice_is_for_its_author_to_decide(tmp_path: Path) -> None:
    steps = (
        "  - step: a\n    tool: {kind: noop}\n    next: [{step: b}]\n    next: [{step: c}]\n  - step: b\n  - step: c\n"
    )
    path = write(tmp_path, HEADED + steps.replace("step: a", "step: start"))

    result = CliRunner().invoke(command, [str(path)])

    assert (result.exit_code, result.stdout) == (3, "")
    assert "written twice" in result.stderr


@pytest.mark.req("VAL-04")
def test_a_kind_that_nothing_here_provides_is_told(tmp_path: Path) -> None:
    path = write(
        tmp_path, f"{HEADED}  - step: start\n    tool: {{kind: sleep}}\n    next: [{{step: b}}]\n  - step: b\n"
    )

    result = CliRunner().invoke(command, [str(path)])

    assert result.exit_code == 0
    assert 'tool kind "sleep" is not built in' in result.stderr
    assert "timer: {duration: 5s}" in result.stderr
