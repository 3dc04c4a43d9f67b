"""Reading YAML: values, places, and everything that is wrong with a text, in one go (DOC-01)."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, data
from noetl.language.reading.yaml import read_yaml


def read(text: str) -> tuple[Mapping | None, list[Diagnostic]]:
    findings = Findings()
    return read_yaml(Source("test.yaml", text), findings), list(findings)


def good(text: str) -> Mapping:
    root, found = read(text)
    assert found == []
    assert root is not None
    return root


def mapping(node: Node) -> Mapping:
    assert isinstance(node, Mapping)
    return node


def scalar(node: Node) -> Scalar:
    assert isinstance(node, Scalar)
    return node


def at(root: Mapping, *keys: str | int) -> Node:
    node: Node = root
    for key in keys:
        if isinstance(key, int):
            assert isinstance(node, Sequence)
            node = node.items[key]
        else:
            node = mapping(node).values[key]
    return node


# values -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("DOC-01")
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("null", None),
        ("Null", None),
        ("NULL", None),
        ("~", None),
        ("", None),
        ("nUll", "nUll"),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("yes", "yes"),
        ("NO", "NO"),
        ("on", "on"),
        ("off", "off"),
        ("0", 0),
        ("012", 12),
        ("-7", -7),
        ("+7", 7),
        ("0o14", 12),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("18446744073709551615", 2**64 - 1),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-2.5E-1", -0.25),
        ("2026-01-31", "2026-01-31"),
        (".", "."),
        ("-", None),
        ("1.2.3", "1.2.3"),
        ("'12'", "12"),
        ('"true"', "true"),
        ('"a\\tb\\u00e9"', "a\tbé"),
        ("|\n  x\n  y", "x\ny"),
        (">\n  x\n  y\n", "x y\n"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(written: str, value: object) -> None:
    root = good(f"a: {written}" if written != "-" else "a:\n  -")
    found = data(root)["a"] if written != "-" else data(root)["a"][0]

    assert found == value
    assert type(found) is type(value)


def test_quoted_and_block_text_is_not_plain() -> None:
    root = good("a: x\nb: 'x'\nc: |\n  x\n")

    assert [scalar(at(root, key)).plain for key in "abc"] == [True, False, False]


@pytest.mark.parametrize("number", [".inf", "-.Inf", ".NaN", "1e999", "99999999999999999999", "-" + "9" * 5000])
def test_a_number_that_json_cannot_hold_is_refused_and_kept_as_text(number: str) -> None:
    root, (found,) = read(f"a: 1\nb: {number}\n")

    assert (found.code, found.line, found.path) == ("E_YAML", 2, "b")
    assert "in quotes" in found.hint
    assert data(root) == {"a": 1, "b": number}


# places -----------------------------------------------------------------------------------------------------------


def test_every_value_and_key_has_its_path_and_text() -> None:
    text = 'workflow:\n  - step: "start"\n    tool: { kind: noop }\n  - step: b\n'
    root = good(text)
    source = Source("t", text)

    kind = at(root, "workflow", 0, "tool", "kind")
    assert (kind.path, source.cut(kind.span)) == ("workflow[0].tool.kind", "noop")
    step = at(root, "workflow", 0, "step")
    assert (step.path, source.cut(step.span), step.span.line, step.span.column) == (
        "workflow[0].step",
        '"start"',
        2,
        11,
    )
    tool = at(root, "workflow", 0)
    assert isinstance(tool, Mapping)
    key = tool.keys["tool"]
    assert (key.path, source.cut(key.span)) == ("workflow[0].tool", "tool")
    assert source.cut(tool.span) == 'step: "start"\n    tool: { kind: noop }'
    assert source.cut(at(root, "workflow").span) == text[text.index("- step") :].rstrip("\n")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: 'é😀'\nb: x\n", 2, 4),
        ("a: 1\r\nb: x\r\n", 2, 4),
        ("\ufeffa: 1\nb: x\n", 2, 4),
        ("\ufeffb: x\n", 1, 4),
        ("a: '😀'  # 😀\nc: {b: x}\n", 2, 8),
        ("a: 'u\u2028v'\nb: x\n", 2, 4),
        ("a: 1\rb: x\n", 1, 9),
        ("b: &name x\n", 1, 10),
        ("b: &name\n  x\n", 2, 3),
    ],
)
def test_positions_match_those_of_an_editor(text: str, line: int, column: int) -> None:
    """Characters, not bytes; a byte order mark counts as nothing; only line feeds make lines."""
    root = good(text)
    node = at(root, "c", "b") if "c: {" in text else at(root, "b")

    assert Source("t", text).cut(node.span) == "x"
    assert (node.span.line, node.span.column) == (line, column)
    assert node.span.end_column == column + 1


def test_a_block_scalar_ends_with_its_last_line() -> None:
    text = "a: |\n  one\n  two\n\n\n# next\nb: 1\n"
    root = good(text)

    assert Source("t", text).cut(at(root, "a").span) == "|\n  one\n  two"
    assert (at(root, "a").span.end_line, at(root, "a").span.end_column) == (3, 6)
    assert at(root, "b").span.line == 7


def test_a_key_that_is_not_a_word_is_quoted_in_its_path() -> None:
    root = good('headers: {X-Id: 1, "a b": 2, a.b: 3}\n')

    assert [node.path for node in mapping(at(root, "headers")).values.values()] == [
        "headers.X-Id",
        'headers["a b"]',
        'headers["a.b"]',
    ]


def test_an_alias_repeats_a_value_under_its_own_path() -> None:
    text = "a: &x {p: [1, 2]}\nb: *x\nc: &k key\n*k : 5\n"
    root = good(text)

    assert data(root) == {"a": {"p": [1, 2]}, "b": {"p": [1, 2]}, "c": "key", "key": 5}
    repeated = at(root, "b", "p", 1)
    assert (repeated.path, Source("t", text).cut(repeated.span)) == ("b.p[1]", "2")


# problems that do not stop the reading ----------------------------------------------------------------------------


@pytest.mark.req("DOC-01")
def test_duplicate_keys_are_refused_with_both_lines() -> None:
    root, (found,) = read("workflow:\n  - step: a\n    tool: {kind: noop}\n    next: b\n    tool: {kind: http}\n")

    assert (found.code, found.line, found.path) == ("E_YAML", 5, "workflow[0].tool")
    assert found.message == '"tool" is written twice in one mapping, on lines 3 and 5'
    assert data(root)["workflow"][0]["tool"] == {"kind": "noop"}


@pytest.mark.req("DOC-01")
def test_all_problems_are_reported_in_order() -> None:
    text = (
        "a: 1\na: 2\n<<: {x: 1}\n1: x\n? [q]\n: z\nt: !!str 5\ni: .inf\nu: {{ workload.url }}\nz: *no\ny: &r [*r]\n"
        'w: "\\0"\n'
    )
    root, found = read(text)

    assert [(one.line, one.message) for one in found] == [
        (2, '"a" is written twice in one mapping, on lines 1 and 2'),
        (3, 'the merge key "<<" is not part of YAML 1.2'),
        (4, 'keys are text, and "1" is a number'),
        (5, "keys are text, and this one is a list"),
        (7, 'the tag "!!str" is not read: a playbook holds plain values only'),
        (8, '".inf" cannot be stored as JSON'),
        (9, "a template without quotes, which YAML reads as a mapping"),
        (10, '"*no" stands for a value named "&no", and there is none above'),
        (11, '"*r" stands inside the value it repeats'),
        (12, "this text holds a character that cannot be stored"),
    ]
    assert {one.code for one in found} == {"E_YAML"}
    assert root is not None


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("url: {{ workload.url }}\n", "url", 'quote it: "{{ workload.url }}"'),
        ("a: [x, {{ b }}]\n", "a[1]", 'quote it: "{{ b }}"'),
        ("a:\n  - {{ 1 }}\n", "a[0]", 'quote it: "{{ 1 }}"'),
        ("a: {b: {{ c.d }}}\n", "a.b", 'quote it: "{{ c.d }}"'),
    ],
)
def test_an_unquoted_template_is_read_as_the_intended_text(text: str, path: str, hint: str) -> None:
    """So that the reader of the dialect has nothing more to say about it."""
    root, (found,) = read(text)

    assert (found.path, found.hint) == (path, hint)
    assert "{{ " in str(data(root))


@pytest.mark.parametrize("text", ["a: !python/object:os.system x\n", "a: !x {b: 1}\n", "!!map\na: 1\n", "a: ! x\n"])
def test_every_tag_is_refused(text: str) -> None:
    _, (found,) = read(text)

    assert found.code == "E_YAML"
    assert found.message.startswith('the tag "!')


def test_a_quoted_merge_sign_is_an_ordinary_key() -> None:
    assert data(good('"<<": 1\n')) == {"<<": 1}


# problems that do -------------------------------------------------------------------------------------------------


@pytest.mark.req("DOC-01")
@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("- a\n", 1, "a playbook is a mapping, and this is a list"),
        ("just text\n", 1, "a playbook is a mapping, and this is text"),
        ("", 1, "the document is empty"),
        ("# only a comment\n", 1, "the document is empty"),
        ("---\n...\n", 2, "the document is empty"),
        ("---", 1, "the document is empty"),
        ("a: 1\n---\nb: 2\n", 2, "a second document begins here"),
        ("a: 1\nb: \x07\n", 2, "the character U+0007 cannot be part of a playbook"),
        ("a: \x00", 1, "the character U+0000 cannot be part of a playbook"),
        ("a: \ud800", 1, "the character U+D800 cannot be part of a playbook"),
    ],
)
def test_text_that_is_not_a_playbook_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    root, (found,) = read(text)

    assert root is None
    assert (found.code, found.line, found.message) == ("E_YAML", line, message)
    assert found.hint


MISTAKES = [
    ("a:\n\tb: 1\n", "2:1", "line 2 is indented with a tab", "indent with spaces"),
    ("a: |\n \tx\n\ty\n", "2:2", "line 2 is indented with a tab", "indent with spaces"),
    ("a: b: c\n", "1:5", 'a second ": " in one value', 'quote the value that holds ": "'),
    ("key:value\nb: 1\n", "2:2", "the line above is not a key", 'a space after the ":" on line 1'),
    ("a:\n  kind http\n  url: x\n", "2:3", 'a ":" is missing after "kind"', "write kind: http"),
    ("- kind\n  url: x\n", "1:3", 'a ":" is missing after "kind"', "write kind: …"),
    ("a: b\n  c: d\n", "2:4", "a key where the value above still goes on", "indent it like the key above"),
    ("a: 1\nfoo\nb: 1\n", "2:1", "neither a key with a value nor a list item", "a space after the colon"),
    ("a: 'x\nb: 1\n", "1:4", "quotes that are never closed", "close the text with '"),
    ('a: 1\nb: "x\n', "2:4", "quotes that are never closed", 'close the text with "'),
    ("a: [1, 2\nb: 1\n", "1:4", 'a list that is not closed with "]"', "line 2"),
    ("a: {b: 1\nc: 2\n", "1:4", 'a mapping that is not closed with "}"', "line 2"),
    ("a: 1\nb: [1,\n", "2:4", "this is never closed", '"]"'),
    ("a: }\n", "1:4", 'a value cannot begin with "}"', "quote"),
    ("a: @x\n", "1:4", 'text cannot begin with "@"', "quote the text"),
    ("a: `x`\n", "1:4", 'text cannot begin with "`"', "quote the text"),
    ("cron: */5 * * * *\n", "1:7", '"*" repeats a value in YAML', '"*/5 * * * *"'),
    ('a: "b" c\n', "1:8", "the value has already ended here", "quote the whole value"),
    ('a: "\\q"\n', "1:5", '"\\q" is no escape', "backslash twice"),
    ("a:\n  b: 1\n c: 2\n", "3:2", "does not line up with any key above", "column 1 (line 1)"),
    ("a: 1\n- b\n", "2:1", "a list item among the keys of a mapping", "under a key of their own"),
    ("a:\n  - b\n  c: 1\n", "3:3", "a key among the items of a list", "column 3 (line 2)"),
    ("a:\n  - b: 1\n   c: 1\n", "3:4", "does not line up with anything above", "column 3 (line 2)"),
    ("trigger: { cron: */5 * * * * }\n", "1:18", '"*" repeats a value in YAML', 'quote the text: "*/5 * * * *"'),
    ("a: | text\n  x\n", "1:6", 'text on the line of "|"', "next line"),
    ("{a: 1}\nb: 2\n", "2:1", "text after the end of the document", "one mapping"),
    ("kind： Playbook\na: 1\n", "1:5", '"：" is a full-width colon', 'write "kind:" and a space'),
    ("a:\n  - step：x\n    tool: 1\n", "2:9", '"：" is a full-width colon', 'write "step:" and a space'),
    ("a: |\n  note：x\nb: c: d\n", "3:5", 'a second ": " in one value', 'quote the value that holds ": "'),
    ("a:\n  kind:\u00a0noop\n  args: 1\n", "2:8", "the invisible character U+00A0", "replace every U+00A0"),
    ("a:\n\u00a0 kind: noop\n  args: 1\n", "2:1", "the invisible character U+00A0", "replace every U+00A0"),
    ("a:\n\u3000 b: 1\n  c: 2\n", "2:1", "the invisible character U+3000", "by a space"),
    ("a: 1\n\ufeffb: 2\n", "2:1", "the invisible character U+FEFF", "or remove it"),
    ("a: |\n  x:\u00a0y\nb: c: d\n", "3:5", 'a second ": " in one value', 'quote the value that holds ": "'),
    ("url: {{ a }}/x\n", "1:6", "a template without quotes", 'quote it: url: "{{ a }}/x"'),
    ("a: {{ x['k'] }} {{ y }}\n", "1:4", "a template without quotes", "a: \"{{ x['k'] }} {{ y }}\""),
    ("a: {% if x %}y{% endif %}\n", "1:4", "a template without quotes", 'a: "{% if x %}y{% endif %}"'),
    ("- {{ x }} y\n", "1:3", "a template without quotes", 'quote it: "{{ x }} y"'),
    ("a: {b: {{ x }}-1}\n", "1:8", "a template without quotes", 'quote it: "{{ x }}"'),
    ('a: {{ x["k"] }}/y\n', "1:4", "a template without quotes", "a: '{{ x[\"k\"] }}/y'"),
]


@pytest.mark.req("DOC-01")
@pytest.mark.parametrize(("text", "place", "message", "hint"), MISTAKES)
def test_a_syntax_error_is_explained_once_at_its_place(text: str, place: str, message: str, hint: str) -> None:
    root, (found,) = read(text)

    assert root is None
    assert (found.code, f"{found.line}:{found.span.column}") == ("E_YAML", place)
    assert message in found.message
    assert hint in found.hint


@pytest.mark.req("DOC-01", "ADV-01")
def test_misindented_list_items_of_on_event_get_the_handler_form_as_hint() -> None:
    """The example of the seed cannot be parsed (C-36)."""
    text = 'steps:\n  on_event:\n    spec:\n      interrupting: false\n    - event: "audit.required"\n      then: []\n'
    _, (found,) = read(text)

    assert found.line == 5
    assert "handlers: [{ event, then }]" in found.hint


def test_quoted_braces_on_the_failing_line_are_not_reported() -> None:
    _, (found,) = read('a: "{{ x }}" y\n')

    assert "template" not in found.message
