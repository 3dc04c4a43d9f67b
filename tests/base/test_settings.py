"""The folders of the user are those of the platform; Linux's are found without the package that knows all of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import platformdirs
import pytest

from noetl.base.errors import RefusedError
from noetl.base.settings import config_folder, home, load_settings


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


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("NOETL_PORT", "abc", "NOETL_PORT is 'abc', not a whole number"),
        ("NOETL_LEASE_TTL", "soon", "NOETL_LEASE_TTL is 'soon', not a number"),
        ("NOETL_RETENTION_DAYS", "long", "NOETL_RETENTION_DAYS is 'long', not a number"),
        ("NOETL_STRICT", "maybe", "NOETL_STRICT is 'maybe', not true or false"),
    ],
)
def test_a_setting_of_another_type_says_what_was_found_and_what_is_allowed(
    variable: str, text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(RefusedError, match=f"{re.escape(words)}$"):
        load_settings(environment={variable: text}, folder=tmp_path)


def test_a_secret_setting_of_another_type_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "noetl.toml").write_text('token = ["hunter2-hunter2"]')

    with pytest.raises(RefusedError, match=r"token is not a text$"):
        load_settings(environment={}, folder=tmp_path)
