"""`result` of a step: the note on a store's kind, and output_select where there is a loop (design.md §5)."""

from __future__ import annotations

import pytest

from tests.language.compiling.outcomes import Compile

LOOP = "loop: { in: [1], iterator: n }"


@pytest.mark.parametrize(
    ("result", "codes"),
    [
        ("{ store: { kind: s3 } }", ["I_ALIAS"]),
        ("{ store: { kind: nats_kv }, output_select: [n] }", ["I_ALIAS"]),
        ("{ store: { kind: auto }, output_select: [n] }", []),
        ("{ output_select: [n] }", []),
    ],
)
@pytest.mark.parametrize("where", ["result: {}", "spec: {{ result: {} }}"])
def test_a_store_kind_is_only_a_preference_and_gets_a_note(
    compiled: Compile, where: str, result: str, codes: list[str]
) -> None:
    found = compiled(f"- step: start\n  {where.format(result)}\n  tool: {{ kind: noop }}")

    assert found.codes == codes
    if codes:
        assert "kept in the store of the deployment" in found.only("I_ALIAS").message


@pytest.mark.parametrize(
    ("api", "strict", "code"),
    [
        ("noetl.io/v10", False, "E_STEP_KEY"),
        ("noetl.io/v2", True, "E_STEP_KEY"),
        ("noetl.io/v2", False, "W_UNKNOWN_KEY"),
    ],
)
def test_output_select_on_a_looped_step_is_refused_or_ignored_with_a_note(
    compiled: Compile, api: str, strict: bool, code: str
) -> None:
    text = f"- step: start\n  {LOOP}\n  result: {{ output_select: [n] }}\n  tool: {{ kind: noop }}"
    found = compiled(text, api=api, strict=strict).only(code)

    assert found.message.startswith('step "start" has a loop, and output_select is for a single result')
    assert found.line == 8
