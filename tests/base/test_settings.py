"""The folders of the user are those of the platform; Linux's are found without the package that knows all of them."""

from __future__ import annotations

import sys

import platformdirs
import pytest

from noetl.base.settings import config_folder, home


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere platformdirs itself is asked")
@pytest.mark.parametrize("chosen", [None, "", "/srv/ada", "elsewhere", " "])
def test_the_folders_of_the_user_are_those_of_the_platform(monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    monkeypatch.delenv("NOETL_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        if chosen is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, chosen)

    assert home() == platformdirs.user_data_path("noetl", appauthor=False)
    assert config_folder() == platformdirs.user_config_path("noetl", appauthor=False)


def test_one_variable_moves_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", "/srv/noetl")

    assert str(home()) == str(config_folder()) == "/srv/noetl"
