"""The executor: where and under which defaults a playbook runs (DOC-06, C-22), with its policy (VAL-12)."""

from __future__ import annotations

from noetl.language.grammar.root import EXECUTOR
from noetl.language.reading.nodes import Mapping, Node
from noetl.language.reading.numbers import plain_text, timeout
from noetl.language.reading.playbook import ExecutorSyntax
from noetl.language.reading.policy_keys import check_parts
from noetl.language.reading.routers import read_unguarded
from noetl.language.reading.scope_policies import read_scope_policy
from noetl.language.reading.shared_checks import ReadContext, check_keys, choice, mapping, text
from noetl.language.reading.step_options import check_concurrency, check_lease

_KINDS = EXECUTOR["kind"].words
_CODE = "E_EXECUTOR"


def read_executor(reading: ReadContext, node: Node | None) -> ExecutorSyntax | None:
    """`kind` and its synonym `profile` become one."""
    block = mapping(reading, node, _CODE, "executor", "executor: {kind: local}")
    if block is None:
        return None
    check_keys(reading, block, EXECUTOR, _CODE)
    kind = choice(reading, block.get("kind"), _KINDS, _CODE, "executor.kind")
    profile = choice(reading, block.get("profile"), _KINDS, _CODE, "executor.profile")
    if kind and profile and kind != profile:
        message = f"executor.kind is {kind}, and executor.profile is {profile}"
        reading.error(_CODE, block.values["profile"], message, "keep one of them, executor.kind")
    spec = mapping(reading, block.get("spec"), _CODE, "executor.spec")
    if spec is not None:
        _check_spec(reading, spec)
    return ExecutorSyntax(
        node=block,
        kind=kind or profile,
        version=plain_text(reading, block.get("version"), _CODE, "executor.version"),
        spec=spec,
    )


def _check_spec(reading: ReadContext, spec: Mapping) -> None:
    """The options of the execution itself; the rest are defaults for tasks (SPEC-02)."""
    check_parts(reading, read_scope_policy(reading, spec.get("policy"), "executor"), "executor")
    read_unguarded(reading, spec.get("unguarded"), "executor.spec.unguarded")
    text(reading, spec.get("entry_step"), "E_SPEC_OPTION", "entry_step", "entry_step: the name of a step")
    text(reading, spec.get("pool"), "E_SPEC_OPTION", "pool", "pool: default")
    check_concurrency(reading, spec.get("concurrency"), "executor.spec.concurrency")
    check_lease(reading, spec.get("lease"))
    timeout(reading, spec.get("timeout"), "timeout")
