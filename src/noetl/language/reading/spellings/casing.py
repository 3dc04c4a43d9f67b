"""Casing: keys of the language in camelCase or with hyphens (`maxInFlight`, `on-error`), read in snake_case.

Only keys that the language or its table of spellings knows are renamed, and only where the language puts its own keys:
what a task sends, `workload`, `args` and the values of variables keep every name as its author wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from noetl.language.grammar.model import Construct
from noetl.language.grammar.policies import DIRECTIVE, EXECUTOR_POLICY, LOOP_POLICY, STEP_POLICY, TASK_POLICY
from noetl.language.grammar.root import ROOT
from noetl.language.grammar.steps import LOOP, LOOP_SPEC, STEP
from noetl.language.grammar.tasks import TASK
from noetl.language.reading.nodes import Mapping, Node, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where
from noetl.language.reading.spellings.plain_values import UNIT_KEYS, with_plain_values

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Blocks that hold keys of the language only, in every place.
_BLOCKS = ("spec", "policy", "retry", "lifecycle", "failure", "concurrency", "lease", "result", "backpressure", "loop")
# Words of the table of spellings, and of other systems with a hint of their own; those of the grammar are looked up.
_OTHER_WORDS = frozenset(
    {"on_success", "on_failure", "on_error", "continue_on_error", "depends_on", "for_each", "run_if", "skip_if"}
    | {"max_attempts", "max_retries", "initial_delay", "backoff_multiplier", "backoff_factor", "retry_when"}
    | {"retry_if", "stop_when", "status_codes", "retry_on", "on_status", "retryable_status_codes", "max_interval"}
    | {"delay_seconds", "max_delay_seconds", "initial_delay_seconds", "delay_ms", "next_call", "retry_delay"}
    | {"max_concurrency", "max_concurrent", "max_parallel", "concurrency_limit", "batch_size", "element_name"}
    | {"iterator_name", "next_mode", "case_mode", "eval_mode", "on_exhausted", "set_vars", "set_shared", "set_prev"}
    | {"timeout_s", "timeout_ms", "timeout_seconds", "timeout_minutes", "timeout_hours", "ignore_errors"}
    | {"allow_failure", "fail_fast", "retry_strategy", "retry_policy", "retry_count", "trigger_rule", "wait_for"}
)


@cache
def _words() -> frozenset[str]:
    """Every key of several words that the language knows."""
    tops = (ROOT, STEP, LOOP, LOOP_SPEC, TASK, TASK_POLICY, DIRECTIVE, EXECUTOR_POLICY, STEP_POLICY, LOOP_POLICY)
    found = {name for top in tops for name in _names(top)}
    return frozenset(name for name in found if "_" in name) | _OTHER_WORDS | UNIT_KEYS.keys()


def _names(construct: Construct) -> Iterator[str]:
    for key in construct.keys:
        yield key.name
        if isinstance(key.shape, Construct):
            yield from _names(key.shape)


def with_snake_keys(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A construct with its own keys, and those of the blocks inside it, in snake_case."""
    if rewriting.v10_api and not rewriting.rescue:
        return node
    for key in list(node.values):
        name = snake(key)
        if name != key and name not in node and name in _words():
            rewriting.note(node.keys[key], f'"{key}"', f'"{name}"')
            node = model.with_key(node, key, name)
    node = with_plain_values(node, rewriting)
    for key in _BLOCKS:
        held = node.get(key)
        if isinstance(held, Mapping):
            node = model.with_value(node, key, with_snake_keys(held, rewriting))
        # A list under `loop` is what it loops over.
        elif isinstance(held, Sequence) and key != "loop":
            items: list[Node] = [
                _policy_with_then(item, rewriting) if isinstance(item, Mapping) else item for item in held
            ]
            node = model.with_value(node, key, model.with_items(held, items))
    return node


def _policy_with_then(node: Mapping, rewriting: Rewriting) -> Mapping:
    """One policy of a list of retries, whose bounds are under `then`."""
    node, then = with_snake_keys(node, rewriting), node.get("then")
    return model.with_value(node, "then", with_snake_keys(then, rewriting)) if isinstance(then, Mapping) else node


def snake(key: str) -> str:
    """`maxInFlight` and `max-in-flight` as `max_in_flight`; other keys as they are."""
    if key.islower() and "-" not in key:
        return key
    return _HUMP.sub("_", key).lower().replace("-", "_")


# Read wherever the visitor comes to a construct, before the other rows, which know the words in snake_case.
SPELLINGS = (
    Spelling(
        id="key-casing",
        where=Where.DOCUMENT,
        older="`maxInFlight`, `max-in-flight`: keys of the language in camelCase or with hyphens",
        canonical="`max_in_flight`",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
    ),
)
