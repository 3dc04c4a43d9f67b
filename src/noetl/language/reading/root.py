"""The root of a document: its sections, its identity and its list of steps (DOC-02…09), the same in every dialect.

The contents of a step or a task depend on the dialect: `read_step` and `read_task` are its readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from noetl.language.grammar.root import EXECUTOR, ROOT, WORKBOOK_TASK
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.old_keys import WORDS_OF_OTHERS
from noetl.language.reading.playbook import ExecutorSyntax, KeychainEntrySyntax, Playbook, StepSyntax, TaskSyntax
from noetl.language.reading.policy_keys import check_concurrency, check_lease, check_parts, read_scope_policy
from noetl.language.reading.routers import read_unguarded
from noetl.language.reading.shared_checks import (
    ReadContext,
    check_keys,
    choice,
    duration,
    known_block,
    mapping,
    opening,
    plain_text,
    sequence,
    text,
    timeout,
)
from noetl.language.reading.trigger import read_notifications, read_trigger


class PlaybookIdentity(msgspec.Struct, frozen=True):
    """The identity of a playbook (DOC-05). `node` is the metadata block; its further keys are kept as they are."""

    name: str
    path: str
    version: str | None
    description: str | None
    node: Mapping | None


def read_identity(root: Mapping, reading: ReadContext, *, lifted: bool) -> PlaybookIdentity:
    """Name and path, empty where they are missing. `lifted`: they may be at the root instead."""
    hint = "metadata: {name: …, path: …}"
    block = mapping(reading, root.get("metadata"), "E_METADATA", "metadata", hint)
    # One message for all of it: name and path would each be reported as missing as well.
    if block is None and root.get("metadata") is None and not (lifted and ("name" in root or "path" in root)):
        reading.error("E_METADATA", opening(root), "a playbook needs metadata", hint)
        return PlaybookIdentity("", "", None, None, None)
    duration(reading, block.get("retention") if block else None, "metadata.retention")
    return PlaybookIdentity(
        name=_read_name(root, block, reading, "name", lifted),
        path=_read_name(root, block, reading, "path", lifted),
        version=plain_text(reading, block.get("version"), "E_METADATA", "metadata.version") if block else None,
        description=plain_text(reading, block.get("description"), "E_METADATA", "metadata.description")
        if block
        else None,
        node=block,
    )


def _read_name(root: Mapping, block: Mapping | None, reading: ReadContext, key: str, lifted: bool) -> str:
    inner = block.get(key) if block else None
    outer = root.get(key) if lifted else None
    found = text(reading, inner, "E_METADATA", f"metadata.{key}")
    above = text(reading, outer, "E_METADATA", key)
    if found and above and found.value != above.value:
        message = f'metadata.{key} is "{found.value}", and {key} at the root is "{above.value}"'
        reading.error("E_METADATA", found, message, f"keep one of them, metadata.{key}")
    if inner is None and outer is None:
        place = opening(block or root)
        reading.error("E_METADATA", place, f"metadata.{key} is missing", f"metadata: {{{key}: …}}")
    return _value(found or above)


def _value(node: Scalar | None) -> str:
    return str(node.value) if node else ""


# A step's mapping and its name (already checked to be text).
StepReader = Callable[[ReadContext, Mapping, Scalar], StepSyntax]
# A task as one value with `kind`, and its name if that is outside of it (a workbook key, a label).
TaskReader = Callable[[ReadContext, Node, Scalar | None], TaskSyntax | None]

# Keys about the playbook itself that people write at the root; metadata keeps any key (DOC-05).
ABOUT = ("version", "description", "author", "owner", "labels", "tags", "annotations")
_ELSEWHERE = WORDS_OF_OTHERS | {key: f"move it to metadata.{key}" for key in ABOUT}
_ELSEWHERE |= dict.fromkeys(("env", "environment", "variables", "config"), "write workload: {name: value}")
_ELSEWHERE |= dict.fromkeys(("defaults", "default_args", "timeout"), "write executor: {spec: {…}}, for all tasks")
_ELSEWHERE["concurrency"] = "write executor: {spec: {concurrency: {limit: 1}}}"
_ELSEWHERE["steps"] = "write workflow, as noetl migrate does"  # under noetl.io/v10


def read_root(
    root: Mapping, reading: ReadContext, read_step: StepReader, read_task: TaskReader, *, lifted_identity: bool = False
) -> Playbook:
    """The whole document. `lifted_identity` (v2-case): `name` and `path` may be at the root (V2C-01)."""
    _check_sections(root, reading, lifted_identity)
    identity = read_identity(root, reading, lifted=lifted_identity)
    api_version = root.get("apiVersion")
    return Playbook(
        node=root,
        dialect=reading.dialect,
        api_version=str(api_version.value) if isinstance(api_version, Scalar) else "",
        name=identity.name,
        catalog_path=identity.path,
        version=identity.version,
        description=identity.description,
        metadata=identity.node,
        keychain=read_keychain(reading, root.get("keychain")),
        executor=read_executor(reading, root.get("executor")),
        workload=mapping(reading, root.get("workload"), "E_ROOT_KEY", "workload", "workload: {name: default, …}"),
        ctx=mapping(reading, root.get("ctx"), "E_ROOT_KEY", "ctx", "ctx: {name: value, …}"),
        workbook=read_workbook(reading, root.get("workbook"), read_task),
        trigger=read_trigger(reading, root.get("trigger")),
        notifications=read_notifications(reading, root.get("on")),
        steps=_read_steps(root, reading, read_step),
    )


def _check_sections(root: Mapping, reading: ReadContext, lifted_identity: bool) -> None:
    handled = ("vars", "spec", "name", "path")
    check_keys(reading, root, ROOT, "E_ROOT_KEY", handled=handled, elsewhere=_ELSEWHERE)
    if "vars" in root:
        hint = "write inputs under workload; set variables with set_ctx, and those of an iteration with set_iter"
        reading.error("E_ROOT_VARS", root.keys["vars"], "a playbook has no vars at its root", hint)
    if "spec" in root:
        hint = "move it to executor.spec"
        reading.error("E_ROOT_KEY", root.keys["spec"], "a playbook has no spec at its root", hint)
    if not lifted_identity:
        for key in ("name", "path"):
            if key in root:
                message = f'"{key}" belongs under metadata, not at the root'
                reading.error("E_ROOT_NAME", root.keys[key], message, f"move it to metadata.{key}")
    kind = root.get("kind")
    if not (isinstance(kind, Scalar) and kind.value == "Playbook"):
        found = "is missing" if kind is None else f'is "{kind.value}"' if isinstance(kind, Scalar) else "is not text"
        reading.error(
            "E_KIND", kind or opening(root), f"kind {found}, and only Playbook is known", "write kind: Playbook"
        )


def _read_steps(root: Mapping, reading: ReadContext, read_step: StepReader) -> tuple[StepSyntax, ...]:
    workflow = root.get("workflow")
    hint = "workflow: [{step: start, …}]"
    if workflow is None:
        reading.error("E_WORKFLOW", opening(root), "a playbook needs a workflow", hint)
        return ()
    if isinstance(workflow, Mapping | Scalar):
        message = f"workflow must be a list of steps, and this is {describe(workflow)}"
        reading.error("E_WORKFLOW", workflow, message, hint)
        return ()
    if not len(workflow):
        reading.error("E_WORKFLOW", workflow, "workflow has no steps", hint)
    steps = (_read_named_step(reading, item, index, read_step) for index, item in enumerate(workflow))
    return tuple(step for step in steps if step is not None)


def _read_named_step(reading: ReadContext, item: Node, index: int, read_step: StepReader) -> StepSyntax | None:
    if not isinstance(item, Mapping):
        message = f"workflow[{index}] must be a step, and this is {describe(item)}"
        reading.error("E_WORKFLOW", item, message, "- step: name")
        return None
    name = text(reading, item.get("step"), "E_STEP_NAME", f"the name of workflow[{index}]", "- step: name")
    if name is not None:
        return read_step(reading, item, name)
    if "step" not in item:
        reading.error("E_STEP_NAME", opening(item), f"workflow[{index}] has no name", "- step: name")
    # It is still read, so that its other mistakes are reported; without a name no arc can lead to it.
    read_step(reading, item, Scalar("", item.span, item.path))
    return None


# The executor: where and under which defaults a playbook runs (DOC-06, C-22), with its policy (VAL-12).

_KINDS = EXECUTOR["kind"].words
_EXECUTOR_CODE = "E_EXECUTOR"


def read_executor(reading: ReadContext, node: Node | None) -> ExecutorSyntax | None:
    """`kind` and its synonym `profile` become one."""
    block = known_block(reading, node, EXECUTOR, _EXECUTOR_CODE, "executor", "executor: {kind: local}")
    if block is None:
        return None
    kind = choice(reading, block.get("kind"), _KINDS, _EXECUTOR_CODE, "executor.kind")
    profile = choice(reading, block.get("profile"), _KINDS, _EXECUTOR_CODE, "executor.profile")
    if kind and profile and kind != profile:
        message = f"executor.kind is {kind}, and executor.profile is {profile}"
        reading.error(_EXECUTOR_CODE, block.values["profile"], message, "keep one of them, executor.kind")
    spec = mapping(reading, block.get("spec"), _EXECUTOR_CODE, "executor.spec")
    if spec is not None:
        _check_spec(reading, spec)
    return ExecutorSyntax(
        node=block,
        kind=kind or profile,
        version=plain_text(reading, block.get("version"), _EXECUTOR_CODE, "executor.version"),
        spec=spec,
    )


def _check_spec(reading: ReadContext, spec: Mapping) -> None:
    """The options of the execution itself; the rest are defaults for tasks (SPEC-02)."""
    check_parts(reading, read_scope_policy(reading, spec.get("policy"), "executor"), "executor")
    read_unguarded(reading, spec.get("unguarded"), "executor.spec.unguarded")
    text(reading, spec.get("entry_step"), "E_SPEC_OPTION", "entry_step", "entry_step: the name of a step")
    text(reading, spec.get("pool"), "E_SPEC_OPTION", "pool", "pool: default")
    shape = "required_inputs: [name, …]"
    for name in sequence(reading, spec.get("required_inputs"), "E_SPEC_OPTION", "required_inputs", shape) or ():
        text(reading, name, "E_SPEC_OPTION", "the name of a required input", shape)
    check_concurrency(reading, spec.get("concurrency"), "executor.spec.concurrency")
    check_lease(reading, spec.get("lease"))
    timeout(reading, spec.get("timeout"), "timeout")


# The keychain: which credentials a playbook needs, by name and kind (KEY-01). How they are found is not read here.

_KEYCHAIN_SHAPE = "keychain: [{name: …, kind: …}]"


def read_keychain(reading: ReadContext, node: Node | None) -> tuple[KeychainEntrySyntax, ...]:
    """Its entries in order, each name once."""
    listed = sequence(reading, node, "E_KEYCHAIN", "keychain", _KEYCHAIN_SHAPE)
    entries: dict[str, KeychainEntrySyntax] = {}
    for item in listed or ():
        entry = _read_entry(reading, item)
        if entry is None:
            continue
        if entry.name in entries:
            first = entries[entry.name].span.line
            message = f'keychain has two entries "{entry.name}", the other one in line {first}'
            reading.error("E_KEYCHAIN", entry.node.values["name"], message, "give each entry a name of its own")
        else:
            entries[entry.name] = entry
    return tuple(entries.values())


def _read_entry(reading: ReadContext, item: Node) -> KeychainEntrySyntax | None:
    if not isinstance(item, Mapping):
        message = f"a keychain entry must be a mapping with name and kind, and this is {describe(item)}"
        reading.error("E_KEYCHAIN", item, message, _KEYCHAIN_SHAPE)
        return None
    name, kind = (_read_entry_field(reading, item, key) for key in ("name", "kind"))
    if name is None or kind is None:
        return None
    return KeychainEntrySyntax(node=item, name=str(name.value), kind=str(kind.value))


def _read_entry_field(reading: ReadContext, item: Mapping, key: str) -> Scalar | None:
    if key not in item:
        name = item.get("name")
        which = f' "{name.value}"' if isinstance(name, Scalar) else ""
        reading.error("E_KEYCHAIN", opening(item), f"keychain entry{which} has no {key}", _KEYCHAIN_SHAPE)
        return None
    return text(reading, item.values[key], "E_KEYCHAIN", f"{key} of a keychain entry")


# The workbook: reusable tasks by name, in any spelling (DOC-09, design.md §5). References are not followed here.

_SHAPE = "workbook: {tasks: {name: {kind: …}}}"


def read_workbook(
    reading: ReadContext, node: Node | None, read_task: Callable[[ReadContext, Node, Scalar | None], TaskSyntax | None]
) -> dict[str, TaskSyntax]:
    """Each task under its name."""
    tasks: dict[str, TaskSyntax] = {}
    for name, body in _entries(reading, node):
        task = read_task(reading, body, name)
        if str(name.value) in tasks:
            message = f'the workbook has two tasks "{name.value}"'
            reading.error("E_TASK_DUP", name, message, "give each task a name of its own")
        elif task is not None:
            tasks[str(name.value)] = task
    return tasks


def _entries(reading: ReadContext, node: Node | None) -> Iterator[tuple[Scalar, Node]]:
    match node:
        case Mapping():
            for _, key, value in _tasks_of(node).items():
                yield key, _task_of(reading, value)
        case Sequence():
            for item in node:
                yield from _workbook_items(reading, item)
        case Scalar() if node.value is not None:
            message = f"workbook must be a mapping or a list of tasks, and this is {describe(node)}"
            reading.error("E_ROOT_KEY", node, message, _SHAPE)


def _tasks_of(node: Mapping) -> Mapping:
    """The inner mapping of `{tasks: {…}}`; a lone task that is itself called tasks has a kind."""
    inner = node.get("tasks")
    if len(node) == 1 and isinstance(inner, Mapping) and not isinstance(inner.get("kind"), Scalar):
        return inner
    return node


def _workbook_items(reading: ReadContext, item: Node) -> Iterator[tuple[Scalar, Node]]:
    """`{name, kind, …}` or `{name, tool: {…}}`."""
    if not isinstance(item, Mapping):
        reading.error("E_ROOT_KEY", item, f"a workbook task must be a mapping, and this is {describe(item)}", _SHAPE)
    elif "name" not in item:
        reading.error("E_TASK_KEY", opening(item), "a workbook task in a list needs a name", "- {name: …, kind: …}")
    else:
        name = text(reading, item.values["name"], "E_TASK_KEY", "name")
        if name is not None:
            yield name, _task_of(reading, item)


def _task_of(reading: ReadContext, entry: Node) -> Node:
    """The task itself: the entry, or the one `tool` it holds."""
    if not isinstance(entry, Mapping) or "kind" in entry or "tool" not in entry:
        return entry
    check_keys(reading, entry, WORKBOOK_TASK, "E_TASK_KEY")
    return entry.values["tool"]
