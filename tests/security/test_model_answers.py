"""Attack: an endpoint of `llm` whose answer is made to hold up the worker."""

from __future__ import annotations

import json
import time

from noetl.tools.llm import answer_of


def spent_on(pieces: int) -> float:
    """Processor time for a call whose arguments come in so many pieces."""
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": "x" * 200}}
    piece = f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [call]}}]})}\n"
    text = piece * pieces + "data: [DONE]\n"
    began = time.process_time()
    answer = answer_of(text)
    spent = time.process_time() - began

    assert len(answer.calls[0].arguments) == 200 * pieces
    return spent


def test_joining_a_streamed_call_costs_linear_work() -> None:
    few, many = spent_on(5_000), spent_on(50_000)

    # Ten times the pieces; a text that grows with each of them took a hundred times as long and more.
    assert many < 40 * few
