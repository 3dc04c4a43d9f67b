"""Task inputs: the keys of a task are those its kind reads, under their canonical names (DOC-10, SPEC-05, design.md
§5).

Aliases are renamed with a note. A runtime knob written beside `kind` is taken as `spec` under noetl.io/v2 and refused
under noetl.io/v10. Values are not looked at: they may be templates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from noetl.base.diagnostics import is_template
from noetl.language.compiling import foreign_words
from noetl.language.compiling.passes import Compilation, Pipeline, head, rewrite_tasks
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.old_keys import hint_for_foreign_word
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.language.reading.shared_checks import DECIDING, did_you_mean, is_typo, is_within, snake_case
from noetl.language.reading.spellings.casing import snake
from noetl.net.kinds import COMMON_SPEC, Input, ToolKind

# Names of other tools and of older versions for an input, if the kind has that input.
_MEANT = {
    **dict.fromkeys(("sql", "statement"), "command"),
    **dict.fromkeys(("file", "db"), "database"),
    "query": "params",
    **dict.fromkeys(("source", "python_callable", "callable"), "code"),
    **dict.fromkeys(("input", "inputs", "with", "parameters", "kwargs"), "args"),
}
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
        reading.take_from_holder()
        reading.sort()
        reading.take_placeholders()
        # Nor of a plug-in, whose table may be older than the plug-in that runs.
        # A workbook definition may leave a required input to its references.
        if not pipeline.in_workbook and kind.plugin is None:
            reading.check_present(pipeline.step.args if pipeline.step is not None else None)
        return replace(task, inputs=reading.inputs, knobs=reading.knobs, spec=reading.spec)

    return rewrite_tasks(playbook, checked)


class _Inputs:
    """The keys of one task by class: inputs, options, and others."""

    def __init__(
        self, task: TaskSyntax, kind: ToolKind, compilation: Compilation, closed: bool, refuses_knobs: bool
    ) -> None:
        self._task, self._kind, self._compilation = task, kind, compilation
        self._closed, self._refuses_knobs = closed, refuses_knobs
        knobs = (*kind.spec, *COMMON_SPEC)
        # Every word for an option, with its name.
        self._knob_names = {word: knob.name for knob in knobs for word in (knob.name, *knob.aliases)}
        self._written = dict(task.inputs)
        self.inputs: dict[str, Node] = {}
        self.knobs: dict[str, Node] = dict(task.knobs)
        self.spec = task.spec

    def take_from_spec(self) -> None:
        """Inputs under `spec`, where only options belong."""
        spec = self.spec
        for key, place, node in list(spec.items()) if spec is not None else ():
            known = self._kind.input(key) if key not in self._knob_names and key != "policy" else None
            if known is None and not (key == "args" and "args" not in self._task.inputs):
                continue
            name = known.name if known is not None else key
            # The input next to `kind` wins; the one under `spec` is left there, where the check of options refuses it.
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

    def take_from_holder(self) -> None:
        """Inputs grouped under one key, as `with` and `config` hold them in other systems."""
        holder = foreign_words.inputs_key(self._kind, self._written)
        if holder is None:
            return
        held = self._written.pop(holder)
        assert isinstance(held, Mapping)
        message = f'what stands under "{holder}" is read as inputs of kind {self._kind.name}'
        self._note("I_ALIAS", holder, message, "write them beside kind")
        self._written |= held.values

    def sort(self) -> None:
        for written, node in self._written.items():
            key = self._plain(written, node)
            known = self._kind.input(key)
            if known is not None and known.name != key:
                self._take_alias(key, known.name, node)
            # Inputs before options: where a kind has an input of the name of an option, its author means the input.
            elif known is not None or key == "args" or self._kind.takes_anything:
                self.inputs[key] = node
            elif key in self._knob_names:
                self._take_knob(key, node)
            else:
                self._note_unknown(key)

    def take_placeholders(self) -> None:
        """The values of placeholders under `args`; those that templates read stay there, too."""
        if not foreign_words.has_placeholder_values(self._kind, self.inputs):
            return
        values = self.inputs["args"]
        self._note("I_ALIAS", "args", '"args" is read as "params": placeholders take its values', 'write "params"')
        if isinstance(values, Sequence) or (self._task.policy is None and not foreign_words.may_read_args(self.inputs)):
            self.inputs.pop("args")
        self.inputs["params"] = values

    def _plain(self, key: str, node: Node) -> str:
        """The key in snake_case if the kind has that key; a `script` that is no file name is taken as the text of the
        script."""
        name = snake(key)
        if key == "script" and (word := foreign_words.inline_text_input(self._kind, self._written, node)) is not None:
            message = f'a "script" that is the text itself is read as "{word}"'
            self._note("I_ALIAS", key, message, f'write "{word}"; script names a file')
            return word
        if name == key or self._closed or self._kind.takes_anything or name in self._written:
            return key
        if self._kind.input(name) is None and name not in self._knob_names:
            return key
        self._note("I_ALIAS", key, f'"{key}" is read as "{name}"', f'write "{name}"')
        return name

    def _take_alias(self, key: str, name: str, node: Node) -> None:
        if name in self._written or name in self.inputs:
            message = f'"{key}" and "{name}" are the same input of {self._kind.name}'
            self._note("E_TASK_KEY", key, message, f'keep "{name}" only')
            return
        message = f'"{key}" is read as "{name}"'
        self._note("I_ALIAS", key, message, f'write "{name}"')
        self.inputs[name] = node

    def _take_knob(self, key: str, node: Node) -> None:
        if self._refuses_knobs:
            message = f'"{key}" is an option of the task, and options belong under spec'
            self._note("E_TASK_KEY", key, message, f"move it under spec: spec: {{{self._knob_names[key]}: …}}")
            return
        name = self._knob_names[key]
        message = f'"{key}" beside kind is read as spec.{name}'
        self._note("I_ALIAS", key, message, f"write it as spec.{name}")
        self.knobs[name] = node

    def _note_unknown(self, key: str) -> None:
        allowed = self._allowed()
        names = ", ".join(known.name for known in self._kind.inputs)
        meant = _MEANT.get(key, "")
        if self._kind.input(meant):
            hint = f'did you mean "{meant}"?'
        else:
            hint = hint_for_foreign_word(key) or did_you_mean(key, allowed, f"its inputs are {names}")
        # An unknown key may be a note of its author, and older documents have many. A key that differs from an input by
        # one letter is a mistake.
        if self._closed or snake_case(key) in DECIDING or is_typo(key, allowed):
            message = f'"{key}" is not an input of kind {self._kind.name}'
            self._note("E_TASK_KEY", key, message, hint)
        else:
            message = f'"{key}" is not an input of kind {self._kind.name} and is ignored'
            self._note("W_UNKNOWN_KEY", key, message, hint)

    def _allowed(self) -> list[str]:
        inputs = (each for known in self._kind.inputs for each in (known.name, *known.aliases))
        return list(dict.fromkeys((*_TASK_KEYS, *inputs)))

    def check_present(self, of_step: Mapping | None) -> None:
        place = self._task.kind_node or head(self._task)
        for known in self._kind.inputs:
            if known.required and known.name not in self.inputs and not self._is_misspelt(known):
                message = f'kind {self._kind.name} needs "{known.name}"'
                beside = next((word for word in (known.name, *known.aliases) if word in (of_step or ())), None)
                hint = f"add {known.name}: …"
                if beside is not None:
                    hint = f'move "{beside}" from the args of the step into its tool: {{kind: {self._kind.name}, …}}'
                self._compilation.note("E_TASK_KEY", place, message, hint)
            self._check_needed(known)
        for group in self._kind.one_of:
            misspelt = (self._is_misspelt(known) for known in self._kind.inputs if known.name in group)
            if not any(name in self.inputs for name in group) and not any(misspelt):
                choices = " or ".join(f'"{name}"' for name in group)
                message = f"kind {self._kind.name} needs {choices}"
                self._compilation.note("E_TASK_KEY", place, message, f"add {group[0]}: …")

    def _is_misspelt(self, known: Input) -> bool:
        """Whether an unknown key is a misspelling of this input: then the finding for the key is sufficient."""
        others = (key for key in self._written if self._kind.input(key) is None)
        return any(is_typo(key, [known.name]) for key in others)

    def _check_needed(self, known: Input) -> None:
        """Further inputs that a literal value requires: `mode: upsert` requires the key columns."""
        value, needed = self.inputs.get(known.name), known.needs
        if needed is None or not isinstance(value, Scalar) or value.value not in needed.values:
            return
        if needed.name not in self.inputs and (not needed.beside or needed.beside in self.inputs):
            message = f'{known.name}: {value.value} of kind {self._kind.name} needs "{needed.name}"'
            self._compilation.note("E_TASK_KEY", value, message, f"add {needed.name}: …")

    def _note(self, code: str, key: str, message: str, hint: str) -> None:
        """Keys that a workbook reference gets from its definition are reported there, once."""
        written = self._task.node
        if isinstance(written, Mapping) and key in written:
            self._compilation.note(code, written.keys[key], message, hint)


# Input shapes: a value that is written out has a shape that its tool reads (TOOL-01).

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_WORDS = {"string": "text", "boolean": "true or false", "integer": "a number", "number": "a number"}
_NESTED = {"object": "a mapping", "array": "a list"}

# Place, problem, allowed values.
Misfit = tuple[Node, str, str]


def check_input_shapes(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_INPUT_SHAPE, and I_ALIAS for keys inside a value."""

    def checked(task: TaskSyntax, pipeline: Pipeline) -> TaskSyntax:
        kind = compilation.kinds.get(task.kind)
        inputs = dict(task.inputs)
        for known in kind.inputs if kind is not None and not task.generated else ():
            node = _paired(inputs.get(known.name), known, compilation)
            if node is not None:
                inputs[known.name] = node
            # Other schemas are for pages and editors: their tools accept more than the schema, for example a number in
            # quotes.
            is_no_text = known.schema.get("type") == "string" and not isinstance(node, Scalar)
            if node is None or not (known.read_strictly or "enum" in known.schema or is_no_text):
                continue
            inputs[known.name] = node = _with_canonical_keys(node, known.schema, compilation)
            if (found := _misfit(node, known.schema)) is not None:
                place, wrong, allowed = found
                compilation.note("E_INPUT_SHAPE", place, f"{known.name} of kind {task.kind}: {wrong}", allowed)
        return replace(task, inputs=inputs) if inputs != task.inputs else task

    return rewrite_tasks(playbook, checked)


def _paired(node: Node | None, known: Input, compilation: Compilation) -> Node | None:
    """`headers: [{name: …, value: …}]` as the mapping that the input takes."""
    pairs = foreign_words.mapping_of_pairs(node) if known.schema.get("type") == "object" else None
    if pairs is None and known.name == "headers":
        pairs = foreign_words.mapping_of_lines(node)
    if pairs is None or not isinstance(node, Sequence):
        return node
    message = f'"{known.name}" as a list of names and values is read as a mapping'
    compilation.note("I_ALIAS", node, message, f"write {known.name}: {{name: value}}")
    return pairs


def _with_canonical_keys(node: Node, schema: dict[str, Any], compilation: Compilation) -> Node:
    """The value with canonical keys in place of the other spellings that its schema lists."""
    aliases: dict[str, str] = schema.get("aliases", {})
    if not isinstance(node, Mapping):
        return node
    found = {key: name for key, name in aliases.items() if key in node and name not in node}
    for key, name in found.items():
        compilation.note("I_ALIAS", node.keys[key], f'"{key}" is read as "{name}"', f'write "{name}"')
    if not found:
        return node
    keys = {found.get(key, key): place for key, place in node.keys.items()}
    return replace(node, keys=keys, values={found.get(key, key): value for key, value in node.values.items()})


def _misfit(node: Node, schema: dict[str, Any]) -> Misfit | None:
    """The first place in a value that its schema does not take; None where all of it fits."""
    # The value of a template is known only when the task runs, and null means a missing input.
    if isinstance(node, Scalar) and (node.value is None or (isinstance(node.value, str) and is_template(node.value))):
        return None
    if "anyOf" in schema:
        found = [_misfit(node, each) for each in schema["anyOf"]]
        if None in found:
            return None
        # the alternative of the same type gives the clearest message; otherwise all alternatives are listed
        alike = [each for each, one in zip(found, schema["anyOf"], strict=True) if each and _is_alike(node, one)]
        return alike[0] if alike else (node, _misfit_text(node), f"write {_allowed(schema)}")
    if not _is_alike(node, schema):
        return node, _misfit_text(node), f"write {_allowed(schema)}"
    return next(_misfits_inside(node, schema), None)


def _misfits_inside(node: Node, schema: dict[str, Any]) -> Iterator[Misfit]:
    match node:
        case Scalar(value=value) if "enum" in schema and not _is_one_of(value, schema["enum"]):
            guess = _misspelt_choice(str(value), schema["enum"])
            allowed = f"write {' or '.join(_without_cases(schema['enum']))}"
            yield node, f'"{value}" is not known', f'did you mean "{guess}"? {allowed}' if guess else allowed
        case Mapping():
            for name in schema.get("required", ()):
                if name not in node:
                    yield node, f'it has no "{name}"', f"add {name}: …"
            for name, _, below in node.items():
                inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
                found = _misfit(below, inner) if isinstance(inner, dict) else None
                if found is not None:
                    yield found
        case Sequence():
            for item in node:
                if (found := _misfit(item, schema.get("items", {}))) is not None:
                    yield found


def _is_one_of(value: object, words: list[str]) -> bool:
    """Words that are listed in upper and in lower case may be written in mixed case."""
    return value in words or (isinstance(value, str) and value.upper() in words and value.lower() in words)


def _misspelt_choice(written: str, words: list[str]) -> str | None:
    """The word that differs by one letter, or by two letters of a long word: FETCH is no misspelling of PATCH."""
    reach = 2 if len(written) > 5 else 1
    return next((word for word in words if is_within(written.lower(), word.lower(), reach)), None)


def _without_cases(words: list[str]) -> list[str]:
    return [word for word in words if word.isupper() or word.upper() not in words]


def _is_alike(node: Node, schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    match node:
        case Mapping():
            return kind in (None, "object") and len(node) >= schema.get("minProperties", 0)
        case Sequence():
            return kind in (None, "array")
        case _:
            return kind is None or type(node.value) in _TYPES.get(kind, ())


def _misfit_text(node: Node) -> str:
    match node:
        case Mapping():
            return "it cannot be a mapping" if len(node.values) else "it cannot be empty"
        case Sequence():
            return "it cannot be a list"
        case _:
            return f'"{node.value}" is not known'


def _allowed(schema: dict[str, Any]) -> str:
    if "description" in schema:
        return str(schema["description"])
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(_allowed(each) for each in schema["anyOf"]))
    kind = str(schema.get("type", ""))
    return " or ".join(schema["enum"]) if "enum" in schema else _WORDS.get(kind) or _NESTED.get(kind, "another value")
