"""Every command takes every playbook of the wild: drawn, compiled, formatted and migrated without a stumble."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.tools.kinds import KINDS
from tests.cli.running import call
from tests.playbook_conventions.wild import NAMES, checked, net, path

ACCEPTED = [name for name in NAMES if not name.endswith("_refused")]
# An unknown key of a task is passed on to v10, which has no mercy with it.
OLDER = [name for name in ACCEPTED if name.startswith("v2_") and not name.endswith("unknown_keys")]
# Other spellings that v10 reads with a note, and the lines that are new once they are v10's own (DIA-08).
RESPELLED = {
    "mixed_loop_mode": [
        "    loop:",
        '      in: "{{ workload.items }}"',
        "      iterator: item",
        "      spec:",
        "        mode: parallel",
    ],
    "v10_foreign_names": ['        args: { body: "{{ result.data }}", v: "{{ ctx.x }}" }'],
    "v10_keychain_kinds": [
        "    token_url: https://test.api.amadeus.com/v1/security/oauth2/token",
        '    client_id: "{{ keychain.stored.client_id }}"',
        '    client_secret: "{{ keychain.stored.client_secret }}"',
    ],
    "v10_list_next": ["      arcs:", "        - step: end"],
    "v10_unknown_keys": [
        "metadata:",
        "  name: unknown_keys",
        "  path: wild/unknown_keys",
        "  version: 3",
        "  description: A description at the root",
        "  labels: [a]",
        "    desc: An older spelling of desc",
    ],
}


@pytest.mark.req("CLI-04")
@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("form", ["text", "mermaid", "dot", "svg"])
def test_every_step_is_drawn(name: str, form: str) -> None:
    code, out, _ = call("graph", "-o", form, str(path(name)))

    assert code == 0
    assert all(step.name in out for step in net(name).transitions)


@pytest.mark.req("CLI-04")
@pytest.mark.parametrize("name", ACCEPTED)
def test_every_task_is_in_the_compiled_text(name: str) -> None:
    code, out, _ = call("compile", str(path(name)))

    assert code == 0
    assert all(f"name: {task.name}" in out for step in net(name).transitions for task in step.tasks)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "v10_merge_key_refused"])
def test_formatting_changes_neither_meaning_nor_findings_and_is_idempotent(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.yaml"
    file.write_bytes(path(name).read_bytes())

    code, _, _ = call("fmt", str(file))
    again, _, _ = call("fmt", "--check", str(file))
    formatted = check(Source(file.name, file.read_bytes().decode()), kinds=KINDS)

    assert (code, again) == (0, 0)
    assert formatted.net == checked(name).net
    assert Counter(found.code for found in formatted.diagnostics) == Counter(
        found.code for found in checked(name).diagnostics
    )


@pytest.mark.req("MIG-01", "MIG-03", "CLI-03")
@pytest.mark.parametrize("name", OLDER)
def test_older_dialects_migrate_to_valid_v10(name: str) -> None:
    code, out, _ = call("migrate", str(path(name)))

    migrated = check(Source(f"{name}.yaml", out), kinds=KINDS)
    assert code == 0
    assert (migrated.dialect, migrated.ok) == ("v10", True)
    assert {step.name for step in net(name).transitions} <= {
        step.name for step in (migrated.net or net(name)).transitions
    }


@pytest.mark.req("MIG-01")
@pytest.mark.parametrize("name", [name for name in ACCEPTED if name.startswith("v10_") and name not in RESPELLED])
def test_migrating_v10_changes_nothing(name: str) -> None:
    code, out, _ = call("migrate", str(path(name)))

    assert code == 0
    assert out.rstrip("\n") == path(name).read_text().rstrip("\n")


@pytest.mark.req("DIA-08", "MIG-01")
@pytest.mark.parametrize(("name", "lines"), RESPELLED.items())
def test_migrating_another_spelling_of_v10_is_canonical_and_idempotent(
    name: str, lines: list[str], tmp_path: Path
) -> None:
    file = tmp_path / f"{name}.yaml"

    code, out, _ = call("migrate", str(path(name)))
    file.write_text(out)
    again, same, _ = call("migrate", str(file))
    migrated = check(Source(f"{name}.yaml", out), kinds=KINDS)

    assert (code, again) == (0, 0)
    assert [line for line in out.splitlines() if line not in path(name).read_text().splitlines()] == lines
    assert migrated.net == net(name)
    assert "I_ALIAS" not in {found.code for found in migrated.diagnostics}
    assert same == out
