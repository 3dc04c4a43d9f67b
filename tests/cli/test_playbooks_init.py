"""`noetl init` and `noetl examples`: what a new project gets, and that it works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from noetl.cli import main
from noetl.cli.playbooks import project_files
from noetl.operations.example_files import example_files


def noetl(*arguments: str) -> str:
    ran = CliRunner().invoke(main.noetl, arguments)
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_a_new_project_runs_and_its_tests_pass(tmp_path: Path) -> None:
    project = tmp_path / "My Shop"

    told = noetl("init", str(project))

    assert "noetl run playbooks/hello.yaml\n" in told
    assert told.rstrip().endswith("noetl test")
    assert "path: my_shop/hello" in (project / "playbooks" / "hello.yaml").read_text()
    ran = noetl("run", "-q", "--db", str(tmp_path / "store.db"), str(project / "playbooks" / "hello.yaml"))
    assert json.loads(ran) == {"greeting": "hello, world"}
    assert noetl("test", str(project)).endswith("1 test: 1 passed\n")
    assert "- run: noetl test\n" in (project / ".github" / "workflows" / "playbooks.yml").read_text()


def test_the_schema_that_a_new_playbook_names_exists(tmp_path: Path) -> None:
    noetl("init", str(tmp_path / "shop"))

    playbook = tmp_path / "shop" / "playbooks" / "hello.yaml"
    named = playbook.read_text().splitlines()[0].partition("$schema=")[2]
    assert "properties" in json.loads((playbook.parent / named).read_text())


@pytest.mark.parametrize("template", [one.name for one in example_files()])
def test_every_template_checks_without_a_warning_and_its_tests_pass(template: str, tmp_path: Path) -> None:
    noetl("init", str(tmp_path / "p"), "--template", template)

    noetl("check", "--strict", str(tmp_path / "p"))
    tested = json.loads(noetl("test", str(tmp_path / "p"), "-o", "json"))
    assert f"{template}.test.yaml" in {Path(one["file"]).name for one in tested}


def test_tokens_backups_and_data_are_ignored_by_git(tmp_path: Path) -> None:
    noetl("init", str(tmp_path))

    ignored = (tmp_path / ".gitignore").read_text().splitlines()

    assert {"*.token", "master.key", "*.tar.gz", "data/", "noetl.db*"} <= set(ignored)


def test_a_called_playbook_is_copied_with_its_caller(tmp_path: Path) -> None:
    noetl("init", str(tmp_path / "shop"), "--template", "nested")

    names = {file.name for file in (tmp_path / "shop" / "playbooks").iterdir()}
    assert names == {"nested.yaml", "nested.test.yaml", "shop_total.yaml", "shop_total.test.yaml"}
    assert "path: shop/shop_total" in (tmp_path / "shop" / "playbooks" / "nested.yaml").read_text()


def test_a_folder_with_files_keeps_them_and_init_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine\n")

    told = noetl("init", str(tmp_path))

    said, *wrote = told.partition("\n\n")[0].splitlines()
    assert said == f"{tmp_path} was not empty. Its other files are unchanged."
    assert wrote == [f"wrote {file}" for file in project_files(tmp_path, "hello")]
    assert (tmp_path / "notes.txt").read_text() == "mine\n"
    assert "not empty" not in noetl("init", str(tmp_path / "new"))


def test_existing_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "noetl.toml").write_text("port = 1\n")
    (tmp_path / ".gitignore").write_text("mine\n")

    refused = CliRunner().invoke(main.noetl, ["init", str(tmp_path)])

    assert refused.exit_code != 0
    assert sorted(one.name for one in tmp_path.iterdir()) == [".gitignore", "noetl.toml"]
    noetl("init", str(tmp_path), "--force")
    assert (tmp_path / "noetl.toml").read_text() != "port = 1\n"


def test_the_plug_in_template_is_a_package(tmp_path: Path) -> None:
    noetl("init", str(tmp_path / "mine"), "--template", "plugin")

    assert 'entry-points."noetl.tools"' in (tmp_path / "mine" / "pyproject.toml").read_text()


def test_examples_are_listed_shown_and_copied(tmp_path: Path) -> None:
    listed = json.loads(noetl("examples", "list", "-o", "json"))

    assert {"hello", "fan_out", "saga"} <= {one["name"] for one in listed}
    assert all(one["summary"] for one in listed)
    assert noetl("examples", "show", "hello").startswith("# yaml-language-server")
    noetl("examples", "copy", "nested", str(tmp_path))
    assert (tmp_path / "shop_total.yaml").is_file()
    noetl("examples", "copy", "dlt_and_dbt", str(tmp_path))
    assert (tmp_path / "dlt_and_dbt" / "models" / "shop_revenue.sql").is_file()


def test_an_unknown_example_is_answered_with_the_list_of_examples() -> None:
    refused = CliRunner().invoke(main.noetl, ["examples", "show", "helo"])

    assert refused.exit_code != 0
    assert "hello" in str(refused.exception)
