"""The root of a document: its sections, its identity and its list of steps (DOC-02…09), the same in every dialect.

What stands inside a step or a task is the dialect's business: `read_step` and `read_task` are its readers.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.language.grammar.root import ROOT
from noetl.language.reading.executor import read_executor
from noetl.language.reading.keychain import read_keychain
from noetl.language.reading.metadata import read_identity
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.playbook import Playbook, StepSyntax, TaskSyntax
from noetl.language.reading.shared_checks import ReadContext, check_keys, mapping, opening, text
from noetl.language.reading.trigger import read_trigger
from noetl.language.reading.workbook import read_workbook

# A step's mapping and its name (already checked to be text).
StepReader = Callable[[ReadContext, Mapping, Scalar], StepSyntax]
# A task as one value with `kind`, and its name when that stands outside of it (a workbook key, a label).
TaskReader = Callable[[ReadContext, Node, Scalar | None], TaskSyntax | None]

# What people write at the root about the playbook itself; metadata keeps any key (DOC-05).
_ABOUT = ("version", "description", "author", "owner", "labels", "tags", "annotations")
_ELSEWHERE = {key: f"move it to metadata.{key}" for key in _ABOUT}
_ELSEWHERE["steps"] = "write workflow, as noetl migrate does"


def read_root(
    root: Mapping, reading: ReadContext, read_step: StepReader, read_task: TaskReader, *, lifted_identity: bool = False
) -> Playbook:
    """The whole document. `lifted_identity` (v2-case): `name` and `path` may stand at the root (V2C-01)."""
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
        steps=_read_steps(root, reading, read_step),
    )


def _check_sections(root: Mapping, reading: ReadContext, lifted_identity: bool) -> None:
    handled = ("vars", "spec", "name", "path")
    check_keys(reading, root, ROOT, "E_ROOT_KEY", handled=handled, elsewhere=_ELSEWHERE)
    if "vars" in root:
        hint = "inputs go to workload; execution state to ctx by set_ctx; iteration state to iter by set_iter"
        reading.error("E_ROOT_VARS", root.keys["vars"], "a playbook has no vars at its root", hint)
    if "spec" in root:
        hint = "move it to executor.spec"
        reading.error("E_ROOT_KEY", root.keys["spec"], "a playbook has no spec at its root", hint)
    if not lifted_identity:
        for key in ("name", "path"):
            if key in root:
                message = f'"{key}" stands at the root, and identity lives under metadata'
                reading.error("E_ROOT_NAME", root.keys[key], message, f"move it to metadata.{key}")
    kind = root.get("kind")
    if not (isinstance(kind, Scalar) and kind.value == "Playbook"):
        found = "is missing" if kind is None else f'is "{kind.value}"' if isinstance(kind, Scalar) else "is not text"
        reading.error("E_KIND", kind or opening(root), f"kind {found}, and only Playbook is known", "kind: Playbook")


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
    # Read all the same, so that its other mistakes are seen; without a name nothing can lead to it.
    read_step(reading, item, Scalar("", item.span, item.path))
    return None
