"""Task inputs: the keys of a task are those its kind reads, under their canonical names (DOC-10, SPEC-05, design.md
§5).

Aliases are renamed with a note. A runtime knob written beside `kind` is taken as `spec` under noetl.io/v2 and refused
under noetl.io/v10. Values are not looked at: they may be templates.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl.language.compiling.passes import Compilation, head
from noetl.language.compiling.pipelines import Pipeline, rewrite_tasks
from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.language.reading.shared_checks import did_you_mean, is_typo
from noetl.net.kinds import COMMON_SPEC, Input, ToolKind

# Words of other tools and ages for an input, where the kind has it.
_MEANT = {
    **dict.fromkeys(("sql", "statement"), "command"),
    **dict.fromkeys(("file", "db"), "database"),
    "query": "params",
    **dict.fromkeys(("input", "inputs", "with", "parameters", "kwargs"), "args"),
}
_RETRY_WORDS = ("retries", "max_retries", "retry_count", "max_attempts", "attempts")
_RETRY_WAY = (
    "attempts are counted by a rule of the task: spec: {policy: {rules: [{when: "
    "\"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 4, delay: 1}}]}}"
)
_TASK_KEYS = ("name", "kind", "desc", "spec", "args")


def check_inputs(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every task with canonical input names; E_TASK_KEY, W_UNKNOWN_KEY and I_ALIAS."""
    refuses_knobs = playbook.api_version.endswith("/v10")
    closed = refuses_knobs or playbook.strict

    def checked(task: TaskSyntax, pipeline: Pipeline) -> TaskSyntax:
        kind = compilation.kinds.get(task.kind)
        if kind is None or task.generated:
            return task
        reading = _Inputs(task, kind, compilation, closed, refuses_knobs)
        reading.take_from_spec()
        reading.sort()
        if not pipeline.in_workbook and kind.plugin is None:  # a definition may leave an input to its references
            reading.check_present()
        return replace(task, inputs=reading.inputs, knobs=reading.knobs, spec=reading.spec)

    return rewrite_tasks(playbook, checked)


class _Inputs:
    """The keys of one task, told apart: inputs, knobs, and what is neither."""

    def __init__(
        self, task: TaskSyntax, kind: ToolKind, compilation: Compilation, closed: bool, refuses_knobs: bool
    ) -> None:
        self._task, self._kind, self._compilation = task, kind, compilation
        self._closed, self._refuses_knobs = closed, refuses_knobs
        self._knob_names = {knob.name for knob in (*kind.spec, *COMMON_SPEC)}
        self.inputs: dict[str, Node] = {}
        self.knobs: dict[str, Node] = dict(task.knobs)
        self.spec = task.spec

    def take_from_spec(self) -> None:
        """Inputs that stand under `spec`, where only options do."""
        spec = self.spec
        for key, place, node in list(spec.items()) if spec is not None else ():
            known = self._kind.input(key) if key not in self._knob_names and key != "policy" else None
            if known is None and not (key == "args" and "args" not in self._task.inputs):
                continue
            name = known.name if known is not None else key
            if name in self._task.inputs or name in self.inputs or spec is None:
                continue
            message = f'"{key}" under spec is read as the input "{name}"'
            self._compilation.note("I_ALIAS", place, message, f"write {name} beside kind")
            self.inputs[name] = node
            rest = [one for one in spec.values if one != key]
            spec = Mapping(
                {one: spec.keys[one] for one in rest}, {one: spec.values[one] for one in rest}, spec.span, spec.path
            )
        self.spec = spec

    def sort(self) -> None:
        for key, node in self._task.inputs.items():
            known = self._kind.input(key)
            if known is not None and known.name != key:
                self._take_alias(key, known.name, node)
            elif known is not None or key == "args" or self._kind.takes_anything:
                self.inputs[key] = node
            elif key in self._knob_names:
                self._take_knob(key, node)
            else:
                self._note_unknown(key)

    def _take_alias(self, key: str, name: str, node: Node) -> None:
        if name in self._task.inputs or name in self.inputs:
            message = f'"{key}" and "{name}" are the same input of {self._kind.name}'
            self._note("E_TASK_KEY", key, message, f'keep "{name}" only')
            return
        message = f'"{key}" is read as "{name}"'
        self._note("I_ALIAS", key, message, f'write "{name}"')
        self.inputs[name] = node

    def _take_knob(self, key: str, node: Node) -> None:
        if self._refuses_knobs:
            message = f'"{key}" is an option of the task, and options belong under spec'
            self._note("E_TASK_KEY", key, message, f"move it under spec: spec: {{{key}: …}}")
            return
        message = f'"{key}" beside kind is read as spec.{key}'
        self._note("I_ALIAS", key, message, f"write it as spec.{key}")
        self.knobs[key] = node

    def _note_unknown(self, key: str) -> None:
        allowed = self._allowed()
        names = ", ".join(known.name for known in self._kind.inputs)
        meant = _MEANT.get(key, "")
        if key in _RETRY_WORDS:
            hint = _RETRY_WAY
        elif self._kind.input(meant):
            hint = f'did you mean "{meant}"?'
        else:
            hint = did_you_mean(key, allowed, f"its inputs are {names}")
        if self._closed or is_typo(key, allowed):
            message = f'"{key}" is not an input of kind {self._kind.name}'
            self._note("E_TASK_KEY", key, message, hint)
        else:
            message = f'"{key}" is not an input of kind {self._kind.name} and is ignored'
            self._note("W_UNKNOWN_KEY", key, message, hint)

    def _allowed(self) -> list[str]:
        inputs = (each for known in self._kind.inputs for each in (known.name, *known.aliases))
        return list(dict.fromkeys((*_TASK_KEYS, *inputs)))

    def check_present(self) -> None:
        place = self._task.kind_node or head(self._task)
        for known in self._kind.inputs:
            if known.required and known.name not in self.inputs:
                message = f'kind {self._kind.name} needs "{known.name}"'
                self._compilation.note("E_TASK_KEY", place, message, f"add {known.name}: …")
            self._check_needed(known)
        for group in self._kind.one_of:
            if not any(name in self.inputs for name in group):
                choices = " or ".join(f'"{name}"' for name in group)
                message = f"kind {self._kind.name} needs {choices}"
                self._compilation.note("E_TASK_KEY", place, message, f"add {group[0]}: …")

    def _check_needed(self, known: Input) -> None:
        """What a value that is written out asks for beside it: `mode: upsert` the key columns."""
        value, needed = self.inputs.get(known.name), known.needs
        if needed is None or not isinstance(value, Scalar) or value.value not in needed.values:
            return
        if needed.name not in self.inputs and (not needed.beside or needed.beside in self.inputs):
            message = f'{known.name}: {value.value} of kind {self._kind.name} needs "{needed.name}"'
            self._compilation.note("E_TASK_KEY", value, message, f"add {needed.name}: …")

    def _note(self, code: str, key: str, message: str, hint: str) -> None:
        """Keys that a workbook reference got from its definition are noted there, once."""
        written = self._task.node
        if isinstance(written, Mapping) and key in written:
            self._compilation.note(code, written.keys[key], message, hint)
