"""Templates in commands: whatever a value holds, it is one argument and never code (design.md §8, reliability.md
§2.2)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.base.errors import TemplateError, ToolError
from noetl.templates.shell_commands import command

NASTY = 'a b\'; touch PWNED; $(touch PWNED) `touch PWNED` "x" \\ * ~ ${HOME} # &\n|| touch PWNED\n'
SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]


def printed(shell: str, text: Any, folder: Path, **scope: Any) -> str:
    made = command(text, scope)
    assert isinstance(made, str)
    done = subprocess.run([shell, "-c", made], capture_output=True, text=True, cwd=folder, check=False)
    assert done.stderr == ""
    assert list(folder.iterdir()) == [], "a value was run"
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("printf '<%s>' {{ x }}", "<X>"),
        ("printf '<%s>' --name={{ x }}", "<--name=X>"),
        ("printf '<%s>' \"a {{ x }} b\"", "<a X b>"),
        ("printf '<%s>' 'a {{ x }} b'", "<a X b>"),
        ("printf '<%s>' \"$(printf '[%s]' {{ x }}.)\"", "<[X.]>"),
        ("printf '<%s>' \"${nowhere:-{{ x }}}\" ${nowhere:-{{ x }}}", "<X><X>"),
        ("say() { printf '<%s>' {{ x }}; }; say one two", "<X>"),
        ("case 1 in 1) printf '<%s>' {{ x }};; esac", "<X>"),
        ("cat <<END\nv={{ x }}.\nEND\nprintf '<%s>' {{ x }}", "v=X.\n<X>"),
        ("cat <<-END\n\tv={{ x }}.\n\tEND\n", "v=X.\n"),
        ("printf 1 # {{ x }}\nprintf '<%s>' {{ x }}", "1<X>"),
        ("if true; then printf '<%s>' {{ x }}{{ x }}; fi", "<XX>"),
        ("( printf '<%s>' {{ x }} ) | cat", "<X>"),
        ("v={{ x }}; printf '<%s>' \"$v\"", "<X>"),
        ('printf \'<%s>\' "it\\"s {{ x }}"', '<it"s X>'),
    ],
)
def test_a_value_is_one_argument_in_any_position(shell: str, text: str, expected: str, tmp_path: Path) -> None:
    assert printed(shell, text, tmp_path, x=NASTY) == expected.replace("X", NASTY)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
def test_no_value_can_leave_its_quotes(shell: str, tmp_path: Path, value: str) -> None:
    text = "printf '%s' {{ x }} \"{{ x }}\" '{{ x }}' \"$(printf '%s.' {{ x }})\""
    if value.startswith("-"):
        value = "." + value  # what looks like an option is another matter

    harmless = command(text, {"x": "v"})
    assert isinstance(harmless, str)
    assert command(text, {"x": value}) == harmless.replace("=v;", f"={_quoted(value)};")
    if "\r" not in value:  # text mode rewrites it on the way back
        assert printed(shell, text, tmp_path, x=value) == value * 4 + "."


def _quoted(value: str) -> str:
    import shlex

    return shlex.quote(value)


@pytest.mark.parametrize(
    ("value", "word"),
    [(5, "5"), (1.5, "1.5"), (True, "true"), (None, ""), ([1, "a b"], '[1, "a b"]'), ({"k": "ü"}, '{"k": "ü"}')],
)
def test_values_of_other_types_are_arguments_too(value: Any, word: str, tmp_path: Path) -> None:
    assert printed("sh", "printf '<%s>' a{{ x }}", tmp_path, x=value) == f"<a{word}>"


def test_a_dollar_sign_before_a_template_is_a_dollar_sign(tmp_path: Path) -> None:
    text = "printf '<%s>' ${{ n }} \"${{ n }}\" '${{ n }}' \\\\${{ n }}"

    assert printed("sh", text, tmp_path, n=5) == "<$5><$5><$5><\\$5>"


def test_numbers_are_allowed_in_arithmetic(tmp_path: Path) -> None:
    assert printed("sh", "echo $(( {{ n }} - {{ m }} * (2 + {{ n }}) ))", tmp_path, n=5, m=-3) == "26\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo $(( {{ x }} ))", r"\$\(\(…\)\) must give a whole number"),
        ("echo `ls {{ x }}`", r"write \$\(…\) instead"),
        ("cat <<'END'\n{{ x }}\nEND", "leave the quotes off"),
        ("echo \\{{ x }}", "backslash"),
        ("{% for f in x %}rm {{ f }}; {% endfor %}", '"for" block would make commands out of values'),
    ],
)
def test_a_template_is_refused_where_no_variable_is_allowed(text: str, words: str) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        command(text, {"x": "a[$(id)]"})

    assert caught.value.kind == "shell.template"


def test_a_nul_character_is_refused() -> None:
    with pytest.raises(ToolError, match=r"U\+0000"):
        command("echo {{ x }}", {"x": "a\0b"})


def test_a_failing_command_template_is_a_template_error() -> None:
    with pytest.raises(TemplateError):
        command("echo {{ 1 / x }}", {"x": 0})


@pytest.mark.parametrize(
    "text",
    [
        "git clone {{ x }}",
        'git clone "{{ x }}"',
        "a=1 grep {{ x }} f",
        "true -- y; git clone {{ x }}",
        ["git", "{{ x }}"],
    ],
)
def test_a_value_cannot_become_an_option(text: Any) -> None:
    """A repository called `--upload-pack=…` is how git was made to run programs."""
    with pytest.raises(ToolError, match="begins with a dash") as caught:
        command(text, {"x": "--upload-pack=touch PWNED"})

    assert caught.value.kind == "shell.template"


@pytest.mark.parametrize(
    "text",
    [
        "git clone -- {{ x }}",
        "git --into={{ x }}",
        "cat <<END\n{{ x }}\nEND",
        "echo hi > {{ x }}",
        ["git", "--", "{{ x }}"],
    ],
)
def test_a_leading_dash_is_allowed_where_it_is_harmless(text: Any) -> None:
    assert command(text, {"x": "-x"})


def test_negative_numbers_are_not_options() -> None:
    assert command(["seq", "{{ a }}", "{{ b }}"], {"a": -3, "b": "-1.5"}) == ["seq", "-3", "-1.5"]


@pytest.mark.parametrize(
    ("authored", "vector"),
    [
        (["cp", "{{ a }}", "to {{ a }}"], ["cp", "x; y", "to x; y"]),
        (["rm", "--", "{{ files }}"], ["rm", "--", "-a b", "c"]),
        (["echo", 5, None, True], ["echo", "5", "", "true"]),
        ("{{ argv }}", ["ls", "-l"]),
    ],
)
def test_a_list_is_an_argument_vector(authored: Any, vector: list[str]) -> None:
    scope = {"a": "x; y", "files": ["-a b", "c"], "argv": ["ls", "-l"]}

    assert command(authored, scope) == vector


def test_a_text_that_is_one_template_is_one_word_and_not_a_command(tmp_path: Path) -> None:
    """Or whoever fills the workload would write the command."""
    made = command("{{ x }}", {"x": "touch PWNED"})

    done = subprocess.run(["sh", "-c", str(made)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 127
    assert list(tmp_path.iterdir()) == []
