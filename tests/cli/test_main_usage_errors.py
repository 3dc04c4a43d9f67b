"""Usage errors: the message has the place, what was found and the way out, and never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.cli import main as entry
from tests.cli.running import FIXTURES, call
from tests.engine_script import playbook

HELLO = playbook("workflow:\n  - {step: start, tool: {kind: noop}}\n")
NOBODY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, one run in it, and files that are not what they should be."""
    home = tmp_path_factory.mktemp("wrong")
    (home / "hello.yaml").write_text(HELLO)
    for folder in ("folder", "empty"):
        (home / folder).mkdir()
    for name in ("two", "one"):
        (home / "folder" / f"{name}.yaml").write_text(HELLO)
    (home / "folder" / "settings.yaml").write_text("port: 1\n")
    (home / "bad.json").write_text("{")
    (home / "utf16.yaml").write_bytes("a: 1".encode("utf-16"))
    (home / "notdb.db").write_text("not a database at all")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NOETL_HOME", str(home))
        assert call("run", str(home / "hello.yaml"), "-q")[0] == 0
    return home


@pytest.fixture(autouse=True)
def there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("NOETL_HOME", str(home))
    for name in ("NOETL_SERVER", "NOETL_TOKEN", "NOETL_DB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("noetl.client.api_request.TRIES", 1)  # nobody will be there the second time either


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        # files
        ("run nowhere.yaml", 2, "no such file, and no playbook of this path"),
        ("run utf16.yaml", 2, "save it as UTF-8"),
        ("check nowhere.yaml", 2, "there is no such file"),
        ("register nowhere.yaml", 2, "there is no such file"),
        ("run hello.yaml --payload @nowhere.json", 2, "nowhere.json: No such file"),
        (
            "run folder",
            2,
            "folder: this is a folder, and one playbook is needed here: folder/one.yaml, folder/two.yaml\n",
        ),
        ("run folder --version 1", 2, 'no version "1" of such a playbook'),
        ("run empty", 2, 'empty: this is a folder, and one playbook is needed here (*.yaml with "kind: Playbook")'),
        # inputs
        ("dev --port abc", 2, '"abc" is not a whole number from 0 to 65535'),
        ("dev --port 70000", 2, '"70000" is not a whole number from 0 to 65535'),
        ("executions --limit many", 2, '"many" is not a whole number of at least 1'),
        ("run hello.yaml --payload {", 2, "this is not JSON"),
        ("run hello.yaml --payload @bad.json", 2, "this is not JSON"),
        ("run hello.yaml --payload [1]", 2, "a JSON object is needed"),
        ("run hello.yaml --set n", 2, '"n" is not key=value'),
        ("message send x --ttl never", 2, "is not a duration"),
        ("message send x --payload {", 2, "this is not JSON"),
        ("task complete zzz --values [1]", 2, "a JSON object is needed"),
        ("watch last --timeout soon", 2, "is not a duration"),
        ("pool set gpu --capacity many", 2, '"none" removes the limit'),
        ("run hello.yaml --allow rm", 2, "is not one of shell, script, container"),
        (
            "run hello.yaml --sandbox --allow shell --server http://127.0.0.1:9",
            2,
            "--allow and --sandbox: only for runs in this process",
        ),
        ("rerun last --approve", 2, "name it with --from"),
        ("rerun last --role manager", 2, "name it with --from"),
        ("dev --cluster --db x.db", 2, "leave --db out"),
        ("events last -f -o json", 2, "use -o jsonl"),
        ("worker start --drain-timeout soon", 2, '"soon" is not a number of at least 0'),
        ("task complete zzz --seen old", 2, '"old" is not a whole number'),
        # stores
        ("status last --db none.db", 4, "run a playbook first, or name another file"),
        ("task list --db none.db", 4, "run a playbook first, or name another file"),
        ("run hello.yaml --db notdb.db", 4, "is not a NoETL store"),
        ("executions --db notdb.db", 4, "is not a NoETL store"),
        ("run hello.yaml --db /proc/nope/x.db", 4, "No such file or directory; name a file in a folder that you may"),
        ("task claim zzz --role boss --server http://127.0.0.1:9", 2, "token create NAME --human-role ROLE makes"),
        # ids, paths, names
        ("status nobody", 4, 'no execution "nobody" here; the newest: '),
        ("watch nobody", 4, 'no execution "nobody" here'),
        ("cancel last", 4, "has ended: it is completed"),
        ("events last --step strat", 4, 'has no step "strat"; did you mean "start"?'),
        ("logs last --step nope", 4, 'has no step "nope"; its steps are start'),
        ("result last --step nope", 4, 'has no step "nope"'),
        ("rerun last --from nope", 4, 'has no step "nope"; its steps are start'),
        ("replay last --until 9999", 4, "so there is none 9999"),
        ("signal send go --execution zzz", 4, 'no execution "zzz" here'),
        ("event send last my.event", 4, "has ended"),
        ("task show zzz", 4, 'no human task "zzz" here: noetl task list'),
        ("timer list zzz", 4, 'no execution "zzz" here'),
        ("schedule next etl/none", 4, "has no schedule: register a playbook"),
        ("catalog show nope", 4, 'there is no playbook "nope" here: noetl catalog list shows the registered playbooks'),
        (
            "status last --db postgres//db/x",
            2,
            '"postgres//db/x" is neither a file nor postgresql://user@host/database',
        ),
        ("run x --db mysql://me:pass@db/x", 2, '"db/x" is neither a file nor postgresql://'),
        ("catalog show tests/tets", 4, 'did you mean "tests/test"? noetl catalog list shows'),
        ("run tests/tets", 2, 'registered here: did you mean "tests/test"?'),
        ("context use none", 4, "noetl context use --none goes back to the store file"),
        ("credential delete nope", 4, 'there is no credential "nope": noetl credential list shows the credentials'),
        ("credential test nope", 4, "noetl credential list shows the credentials"),
        ("token revoke nope", 4, 'there is no token "nope": noetl token list shows the tokens'),
        ("token create w --role worker", 4, "names the pools it serves"),
        ("webhook create x", 2, "--playbook PATH or --message NAME"),
        ("context use nope", 4, "none is saved yet; noetl context add NAME URL saves one"),
        ("executions --beyond zzz", 4, 'no execution "zzz" here'),
        # servers
        ("pool list", 4, "no server is selected: use --server URL"),
        (f"status last --server {NOBODY}", 4, "does not answer: Connection refused; is a server running there?"),
        (f"message send x --server {NOBODY}", 4, "is a server running there?"),
        (f"task list --server {NOBODY}", 4, "is a server running there?"),
        (f"timer list --server {NOBODY}", 4, "is a server running there?"),
        (f"schedule list --server {NOBODY}", 4, "is a server running there?"),
        (f"credential list --server {NOBODY}", 4, "is a server running there?"),
        (f"status last --server {NOBODY} --db x", 2, "exclude each other"),
        ("task list --server ftp://x", 4, "is not the address of a server"),
        # commands
        ("task lsit", 2, 'no command "task lsit"; did you mean "list"?'),
        ("token delete x", 2, 'no command "token delete"; there are create, list, revoke'),
        ("signal stop", 2, 'no command "signal stop"; there is send'),
        ("notification rule add", 2, 'no command "notification rule add"; there are delete, list, set'),
        ("statsu last", 2, 'did you mean "status"?'),
    ],
)
def test_wrong_usage_is_reported_with_a_suggestion(
    line: str, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = entry.run(line.split())
    out, err = capsys.readouterr()

    assert (ended, out) == (code, ""), out + err
    assert says in err
    assert "Traceback" not in err


def test_a_fixture_with_errors_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    text = (FIXTURES / "F-000-A.yaml").read_text()
    Path("broken.yaml").write_text(text.replace("workflow:", "workflows:"))

    assert entry.run(["run", "broken.yaml"]) == 3
    assert "broken.yaml:" in capsys.readouterr().err + capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [("message", "send", "a\udcff"), ("run", "hello.yaml", "--set", "a=\udcff"), ("executions", "--path", "\udcff")],
)
def test_arguments_that_are_not_utf8_are_reported_by_position(arguments: tuple[str, ...]) -> None:
    code, _, said = call(*arguments)

    assert code == 2
    assert f"argument {len(arguments)} is not UTF-8 text: b'" in said


def test_a_file_name_that_cannot_be_stored_is_refused(home: Path) -> None:
    odd = home / "caf\udce9.yaml"
    odd.write_text(HELLO)

    assert call("check", str(odd))[0] == 0
    code, _, said = call("run", str(odd))

    assert code == 4
    assert "cannot hold this text" in said


def test_a_server_named_only_by_the_context_is_reported_with_the_local_alternative(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(home / "other"))
    assert call("context", "add", "team", NOBODY)[0] == 0
    assert call("context", "use", "team")[0] == 0

    own, typed = call("executions"), call("executions", "--server", "team")

    assert 'It is the current context, "team"; --db STORE reads a store instead' in own[2]
    assert "current context" not in typed[2]


def test_a_missing_server_names_the_contexts_to_choose_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    for name in ("prod", "east"):
        entry.run(["context", "add", name, NOBODY])
    entry.run(["context", "use", "--none"])

    assert entry.run(["pool", "list"]) == 4
    assert "choose a context (east, prod): noetl context use NAME" in capsys.readouterr().err
