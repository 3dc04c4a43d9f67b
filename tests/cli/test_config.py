"""Settings come in layers; a mistake in one of them is an error that names the nearest setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.base.errors import RefusedError
from noetl.base.settings import Loaded, load_settings
from tests.cli.running import call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def load(folder: Path, flags: dict[str, object] | None = None, **variables: str) -> Loaded:
    return load_settings(flags, environment=variables, folder=folder)


def test_each_settings_layer_overrides_the_next(folder: Path) -> None:
    users = 'port = 1\nhost = "user"\nconcurrency = 1\nlog_level = "user"\n'
    (folder.parent / "home" / "config.toml").write_text(users)
    (folder / "noetl.toml").write_text('port = 2\nhost = "project"\nconcurrency = 2\n')
    (folder / ".env").write_text('# ours\nNOETL_PORT=3\nexport NOETL_HOST="dotenv"\nOTHER=x\n')

    loaded = load(folder, {"port": 5, "db": None}, NOETL_PORT="4", NOETL_DB="x.db")

    settings = loaded.settings
    assert (settings.port, settings.host, settings.concurrency, settings.log_level) == (5, "dotenv", 2, "user")
    assert settings.db == "x.db"
    assert loaded.origins["port"] == "flag"
    assert loaded.origins["db"] == "NOETL_DB"
    assert loaded.origins["host"] == str(folder / ".env")
    assert loaded.origins["concurrency"] == str(folder / "noetl.toml")
    assert loaded.origins["nats"] == "default"


def test_a_pyproject_file_applies_to_the_folders_below_it(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.noetl]\npools = ["gpu", "default"]\nbehind-proxy = true\n')
    below = folder / "a" / "b"
    below.mkdir(parents=True)

    settings = load(below).settings

    assert settings.pools == ("gpu", "default")
    assert settings.behind_proxy is True


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("noetl.toml", "prot = 1", 'did you mean "port"'),
        ("noetl.toml", "frobnicate = 1", "there are db,"),
        ("noetl.toml", 'port = "x"', "port"),
        ("noetl.toml", "port = ", "cannot be read"),
        (".env", "NOETL_DBB=1", "there is no setting"),
        (".env", "NOETL_CONCURENCY=1", 'did you mean "concurrency"'),
    ],
)
def test_a_mistake_in_the_settings_is_an_error_with_its_place(folder: Path, file: str, text: str, words: str) -> None:
    (folder / file).write_text(text + "\n")
    if words == "there is no setting":
        assert load(folder).settings.db is None, "other programs may have variables with our prefix"
        return

    with pytest.raises(RefusedError, match=words) as problem:
        load(folder)

    assert file in str(problem.value)


def test_variables_accept_boolean_words_and_lists(folder: Path) -> None:
    settings = load(folder, NOETL_BEHIND_PROXY="yes", NOETL_POOLS="a, b,", NOETL_DRAIN_TIMEOUT="1.5").settings

    assert (settings.behind_proxy, settings.pools, settings.drain_timeout) == (True, ("a", "b"), 1.5)


def test_config_show_hides_the_token_and_names_origins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TOKEN", "noetl_secret_value")

    code, out, _ = call("config", "show", "--origin", "-o", "json")
    text = call("config", "show")[1]
    assert ["pools", "default"] in [line.split() for line in text.splitlines()]

    assert code == 0
    assert json.loads(out)["token"] == {"value": "***", "origin": "NOETL_TOKEN"}
    assert "noetl_secret_value" not in out + text


@pytest.mark.parametrize(
    "content", ["", "\n", "noetl_a_b\nthis is token a (worker); it is not shown again\n", "é", "\udcff"]
)
def test_a_malformed_token_file_is_refused_before_any_request(folder: Path, content: str) -> None:
    file = folder / "t"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))

    code, _, err = call("worker", "start", "--server", "http://127.0.0.1:9", "--token-file", str(file))

    assert code == 4
    assert "must hold a token and nothing else" in err


def test_contexts_are_added_used_and_removed_with_their_tokens(folder: Path) -> None:
    token = folder / "t"
    token.write_text("noetl_abc\n")

    assert call("context", "add", "prod", "https://noetl.example.org/", "--token-file", str(token), "--use")[0] == 0
    kept = folder.parent / "home" / "tokens" / "prod"
    assert kept.read_text() == "noetl_abc\n"
    assert kept.stat().st_mode & 0o077 == 0
    assert "*  prod  https://noetl.example.org  kept" in call("context", "list")[1]
    assert call("context", "use", "other")[0] == 4
    assert call("context", "use", "--none")[0] == 0
    assert call("context", "remove", "prod")[0] == 0
    assert not kept.exists()
    assert call("context", "add", "bad name", "x")[0] == 4
    assert call("context", "add", "x", "ftp://y")[0] == 4


def test_an_unreachable_server_is_one_sentence_and_exit_code_4(folder: Path) -> None:
    code, _, err = call("executions", "--server", "http://127.0.0.1:9")

    assert code == 4
    assert "does not answer" in err


def test_server_and_db_exclude_each_other(folder: Path) -> None:
    assert call("executions", "--server", "http://127.0.0.1:9", "--db", "x.db")[0] == 2
