"""A worker announces only kinds that it can run: allowed, installed and importable (TOOL-01, WRK-05)."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from noetl.tools import registry
from noetl.tools.registry import BUILT_IN, EXTRAS, Permissions, Registry, credential_inputs, is_installed
from tests.playbook_runs import Scripted


def plugged(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    found = [metadata.EntryPoint(name, value, registry.GROUP) for name, value in values.items()]
    own = metadata.entry_points
    monkeypatch.setattr(metadata, "entry_points", lambda **by: found if by == {"group": registry.GROUP} else own(**by))


@pytest.mark.req("TOOL-01")
def test_a_disabled_kind_is_announced_only_when_allowed() -> None:
    here = {kind for kind in BUILT_IN if kind not in EXTRAS or is_installed(EXTRAS[kind])}
    allowed = Registry(permissions=Permissions(kinds=frozenset({"shell"})))

    assert set(Registry().kinds()) == here - {"shell", "script", "container"}
    assert set(allowed.kinds()) == here - {"script", "container"}


def test_a_kind_with_a_missing_extra_is_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.EXTRAS, "duckdb", "an_extra_that_is_not_there")

    assert "duckdb" not in Registry().kinds()
    assert "postgres" in Registry().kinds()
    assert "duckdb" in Registry({"duckdb": Scripted()}).kinds(), "one that is at hand needs no extra"


def test_plug_ins_are_announced_if_they_can_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "courier_of_a_test.py").write_text("class Courier: ...\n")
    (tmp_path / "broken_in_a_test.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugged(
        monkeypatch,
        courier="courier_of_a_test:Courier",
        renamed="courier_of_a_test:Messenger",
        broken="broken_in_a_test:Tool",
        gone="no_module_of_this_name:Tool",
        container="courier_of_a_test:Courier",
        python="courier_of_a_test:Courier",
    )

    kinds = Registry().kinds()

    assert "courier" in kinds
    assert {"renamed", "broken", "gone"}.isdisjoint(kinds)
    assert "container" not in kinds, "it runs programs, and nobody allowed it"
    assert kinds.count("python") == 1
    sys.modules.pop("courier_of_a_test", None)


def test_a_registered_plug_in_declares_which_inputs_name_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "declaring_in_a_test.py").write_text(
        "from noetl.tools.plugin import Input, ToolKind\n"
        "class Says:\n"
        "    kind = ToolKind(name='says', inputs=(Input(name='login', credential=True), Input(name='text')))\n"
        "class Silent:\n"
        "    kind = ToolKind(name='silent', inputs=(Input(name='auth'),))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugged(monkeypatch, says="declaring_in_a_test:Says", silent="declaring_in_a_test:Silent")

    assert credential_inputs("says") == ("login",)
    assert credential_inputs("silent") == ()
    assert credential_inputs("nobody knows it") == ()
    assert credential_inputs("postgres") is None
    sys.modules.pop("declaring_in_a_test", None)
