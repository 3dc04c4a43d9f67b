"""Words of other systems: in `auth`, in the inputs of tasks, where a template reads a result, and its braces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Table

from msgspec.structs import replace

from noetl.base.diagnostics import is_template
from noetl.base.template_names import expression, template
from noetl.language.compiling.embedded_code import KIND as PYTHON
from noetl.language.compiling.embedded_code import MAX_PYTHON_CHARACTERS, tree_of
from noetl.language.compiling.passes import MAIN, Compilation, Pipeline, pipelines, rewrite_tasks
from noetl.language.compiling.python_results import result_fields
from noetl.language.compiling.template_sites import TemplateText, written_texts, written_values
from noetl.language.compiling.text_positions import key_in, parsed, word_in
from noetl.language.compiling.undefined_names import data_names
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, scalars
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.language.reading.spellings import model
from noetl.net.kinds import ToolKind
from noetl.templates.logic import GuardReference
from noetl.templates.scope import TemplateSite

# `auth`: a credential under `name` or `ref`, or under an alias of its own. `key` is a field of credentials that holds
# the secret itself; it is a name only if the keychain has an entry of that name.

_INPUTS = ("auth", "storage_auth")
_CREDENTIAL = "credential"
_WORDS = ("ref", "credential_name", "name")
# Keys that may accompany the name of a credential without being a field of it.
_BESIDE = frozenset(("type", "scheme", "kind"))
# Fields of a credential that hold a mapping: none of them is an alias.
_HOLDING = frozenset(("data", "headers", "tls", "ssl", "options", "params", "query", "value", "fields", "map", "scope"))


def read_credentials(playbook: Playbook, compilation: Compilation) -> Playbook:
    """Every `auth` in its canonical words; I_ALIAS, E_INPUT_SHAPE and W_KEYCHAIN."""
    declared = frozenset(entry.name for entry in playbook.keychain)

    def checked(task: TaskSyntax, pipeline: Pipeline) -> TaskSyntax:
        kind = compilation.kinds.get(task.kind)
        if kind is None or task.generated:
            return task
        inputs = dict(task.inputs)
        for name in _INPUTS:
            held = inputs.get(name) if kind.input(name) is not None else None
            if isinstance(held, Mapping):
                inputs[name] = _read(held, declared, compilation)
        return replace(task, inputs=inputs) if inputs != task.inputs else task

    return rewrite_tasks(playbook, checked)


def _read(held: Mapping, declared: frozenset[str], compilation: Compilation) -> Mapping:
    aliases = [key for key, _, one in held.items() if key not in _HOLDING and _is_reference(one)]
    if len(aliases) > 1 and len(aliases) == len(held):
        message = f"auth names {len(aliases)} credentials, and a task takes one"
        compilation.note("E_INPUT_SHAPE", held.keys[aliases[1]], message, "write auth: {credential: NAME}")
        return held
    inner = held.get(aliases[0]) if len(aliases) == len(held) == 1 else None
    if isinstance(inner, Mapping):
        word = next(key for key in (_CREDENTIAL, "key", *_WORDS) if key in inner)
        _note(held.keys[aliases[0]], f'the alias "{aliases[0]}" of auth', compilation)
        return inner if word == _CREDENTIAL else model.with_key(inner, word, _CREDENTIAL)
    return _named(held, declared, compilation)


def _is_reference(node: Node) -> bool:
    """`{type: postgres, key: NAME}`: a credential by its name, under an alias."""
    return isinstance(node, Mapping) and any(_is_text(node.get(key)) for key in (_CREDENTIAL, "key", *_WORDS))


def _named(held: Mapping, declared: frozenset[str], compilation: Compilation) -> Mapping:
    word = next((key for key in (*_WORDS, "key") if _is_text(held.get(key))), None)
    value = held.get(word) if word is not None else None
    if word is None or not isinstance(value, Scalar) or held.values.keys() - {word} - _BESIDE:
        return held
    if word == "key" and value.value not in declared:
        if not is_template(str(value.value)) and len(held) == 1:
            # Never shown: it may be the secret.
            message = "what stands under key is sent as the secret itself: the keychain has no entry of that name"
            compilation.note("W_KEYCHAIN", held.keys[word], message, "write auth: {credential: NAME}")
        return held
    _note(held.keys[word], f'"{word}" of auth', compilation)
    return model.with_key(held, word, _CREDENTIAL)


def _is_text(node: Node | None) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, str) and bool(node.value.strip())


def _note(place: Scalar, found: str, compilation: Compilation) -> None:
    compilation.note("I_ALIAS", place, f"{found} is read as the name of a credential", "write auth: {credential: NAME}")


# Inputs: under `with` or `config`, a script as its own text, lists of names and values, values of placeholders under
# `args`.

# Keys under which other systems put the inputs of a task; `with` and `inputs` have become `args` by now.
_HOLDERS = ("args", "config", "configuration", "properties", "arguments", "input", "parameters", "params")
_TEXTS = ("code", "command")
_FILES = (".py", ".sql", ".txt")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def inputs_key(kind: ToolKind, inputs: Table[str, Node]) -> str | None:
    """The key whose value holds inputs of the kind and nothing else, where the kind has no input of that name."""
    for key in _HOLDERS:
        held = inputs.get(key)
        if not isinstance(held, Mapping) or not len(held) or kind.takes_anything or kind.input(key) is not None:
            continue
        if key == "args" and _reads_args(inputs):
            continue
        names = [kind.input(name) for name in held.values]
        if all(one is not None and one.name not in inputs for one in names) and not held.values.keys() & inputs.keys():
            return key
    return None


def _reads_args(inputs: Table[str, Node]) -> bool:
    texts = (text.value for key, node in inputs.items() if key != "args" for text in scalars(node))
    return any(isinstance(text, str) and is_template(text) and "args" in text for text in texts)


def inline_text_input(kind: ToolKind, inputs: Table[str, Node], node: Node) -> str | None:
    """The input for a `script` that is no name of a file, but the text to run."""
    text = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    if is_template(text) or text.strip().endswith(_FILES) or not any(one.isspace() for one in text.strip()):
        return None
    return next((word for word in _TEXTS if kind.input(word) is not None and word not in inputs), None)


# `:name` (no cast), `%(name)s` and `$name`; `$1`, `%s` and `?`.
_NAMED = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)|%\(([A-Za-z_]\w*)\)s|\$([A-Za-z_]\w*)")
_NUMBERED = re.compile(r"\$\d|%s|\?")


def has_placeholder_values(kind: ToolKind, inputs: Table[str, Node]) -> bool:
    """Whether `args` hold the values of placeholders in the SQL: there is no table, and there are no `params`."""
    args, texts = inputs.get("args"), _sql_texts(kind, inputs)
    if kind.input("params") is None or "params" in inputs or "table" in inputs or not texts:
        return False
    if isinstance(args, Sequence):
        return len(args) > 0 and any(_NUMBERED.search(text) for text in texts)
    names = {name for text in texts for found in _NAMED.findall(text) for name in found if name}
    return isinstance(args, Mapping) and bool(names & args.values.keys())


def may_read_args(inputs: Table[str, Node]) -> bool:
    """Whether a template of the task that can read `args` reads it."""
    texts = (text.value for key, node in inputs.items() if key != "args" for text in scalars(node))
    return any(isinstance(text, str) and is_template(text) for text in texts)


def _sql_texts(kind: ToolKind, inputs: Table[str, Node]) -> list[str]:
    nodes = (inputs.get(one.name) for one in kind.inputs if one.sql)
    return [str(text.value) for node in nodes if node is not None for text in scalars(node)]


def mapping_of_lines(node: Node | None) -> Mapping | None:
    """A list of texts such as `Accept: text/csv` as a mapping; None for anything else."""
    texts = [one for one in node if isinstance(one, Scalar)] if isinstance(node, Sequence) else []
    found: list[tuple[str, Node]] = []
    for text in texts:
        name, colon, value = str(text.value).partition(":")
        if not colon or not _HEADER.fullmatch(name.strip()):
            return None
        found.append((name.strip(), model.made_text(value.strip(), text)))
    if not isinstance(node, Sequence) or not found or len(dict(found)) != len(node):
        return None
    return model.made_mapping(found, node)


def mapping_of_pairs(node: Node | None) -> Mapping | None:
    """A list of `{name, value}` as a mapping; None for anything else."""
    if not isinstance(node, Sequence) or not len(node):
        return None
    found: list[tuple[str, Node]] = []
    for item in node:
        word = next((key for key in ("name", "key") if isinstance(item, Mapping) and key in item), None)
        name = item.get(word) if word is not None and isinstance(item, Mapping) else None
        if not isinstance(item, Mapping) or len(item) != 2 or "value" not in item or not isinstance(name, Scalar):
            return None
        found.append((str(name.value), item.values["value"]))
    return model.made_mapping(found, node) if len(dict(found)) == len(found) else None


# Results that are read by a word of other systems: `step.output.x`, `step.value`. Only where the fields of the result
# follow from the playbook: those of a mapping that Python code writes out, or those that each result of a kind has.
# Elsewhere the result may have a field of that name.

_RESULT_WORDS = frozenset(("output", "outputs", "value", "return_value", "response", "body", "payload"))
# The path after it is read from the result itself, unless the result has such a key (TPL-07).
_RESULT_ITSELF = "output"
_OF_EACH = frozenset(("data", "result", "status", "error"))
Fields = dict[str, frozenset[str]]


def check_misread_results(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_FOREIGN_NAME: a field that a result does not have, where its fields are known."""
    steps, tasks = _known_results(playbook, compilation)
    if not steps and not any(tasks.values()):
        return playbook
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        step = written.step_of(playbook)
        known = {**steps, **(tasks[step.name] if step is not None else {})}
        for read in template.references if template else ():
            if read.root in known and read.path and read.path[0] in _RESULT_WORDS and not read.defaulted:
                _note_misread(read, known[read.root], written, playbook, compilation)
    return playbook


def _known_results(playbook: Playbook, compilation: Compilation) -> tuple[Fields, dict[str, Fields]]:
    """The fields of results by the name of their step, and those of the tasks of each step."""
    steps: Fields = {}
    tasks: dict[str, Fields] = {step.name: {} for step in playbook.steps}
    others = data_names(playbook)
    left = MAX_PYTHON_CHARACTERS
    for pipeline in pipelines(playbook):
        step = pipeline.step
        for task in pipeline.tasks if step is not None else ():
            code = task.inputs.get("code")
            left -= len(str(code.value)) if isinstance(code, Scalar) else 0
            fields = _fields(task, compilation) if left >= 0 else None
            if step is None or fields is None or fields & _RESULT_WORDS:
                continue
            if task.name is not None and task.name not in others:
                tasks[step.name][task.name] = fields
            is_result = pipeline.part == MAIN and task is pipeline.tasks[-1] and step.loop is None
            if is_result and step.sink is None and step.name not in others:
                steps[step.name] = fields
    return steps, tasks


def _fields(task: TaskSyntax, compilation: Compilation) -> frozenset[str] | None:
    kind = compilation.kinds.get(task.kind)
    code = task.inputs.get("code")
    if task.kind == PYTHON and isinstance(code, Scalar) and isinstance(code.value, str):
        tree = tree_of(code.value)
        return result_fields(tree) if tree is not None else None
    # The payload of a result that wraps it comes from outside.
    return frozenset(kind.result_keys) or None if kind is not None and not kind.unwraps else None


def _note_misread(
    read: GuardReference, fields: frozenset[str], written: TemplateText, playbook: Playbook, compilation: Compilation
) -> None:
    word, below = str(read.path[0]), [str(key) for key in read.path[1:]]
    place = key_in(written.scalar, read.root, read.path[:1], playbook.source)
    if word == _RESULT_ITSELF and (not fields or (below and below[0] in fields | _OF_EACH)):
        instead = ".".join((read.root, *(below or ("data",))))
        compilation.note("I_ALIAS", place, '"output" of a result is read as the result itself', f"write {instead}")
        return
    message = f'"{read.root}" has no "{word}", which {written.what} reads, so it is null'
    if below and below[0] in fields:
        hint = f"write {read.root}.{below[0]}"
    else:
        known = f"; it has {', '.join(sorted(fields))}" if fields else ""
        hint = f"write {read.root}.data for the whole result{known}"
    compilation.note("W_FOREIGN_NAME", place, message, hint)


# Braces of other systems around a whole value, where the value is text and not what was meant.

_PATH = r"[A-Za-z_]\w*(?:\.\w+)+"
_BRACED = re.compile(rf"(?:\$?\{{\s*({_PATH})\s*\}}|\$\(\s*({_PATH})\s*\)|<%=?\s*({_PATH})\s*%>)")
_DOLLAR = "$"
_NAMESPACES = frozenset(("workload", "ctx", "args", "iter", "event", "outcome"))


def check_foreign_braces(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_FOREIGN_NAME: `${{ n }}` gives the text "$5"; `{ load.rows }` and `<% load.rows %>` are no templates at all."""
    for written in written_texts(playbook, compilation):
        if written.is_value and written.site is not TemplateSite.NOTICE and written.text.startswith(_DOLLAR + "{{"):
            _note_dollar(written, playbook, compilation)
    known = _NAMESPACES.union(step.name for step in playbook.steps)
    known |= {task.name for pipeline in pipelines(playbook) for task in pipeline.tasks if task.name is not None}
    noted: set[str] = set()
    for node, what in written_values(playbook, compilation):
        for place in _values_in(node):
            path = _braced_path(place, playbook)
            if path is not None and path.partition(".")[0] in known and place.path not in noted:
                noted.add(place.path)
                got = "this text as it is" if isinstance(place, Scalar) else "a mapping with that key"
                message = f"a template has double braces: {what} gets {got}"
                compilation.note("W_FOREIGN_NAME", place, message, f'write "{template(path)}"')
    return playbook


def _note_dollar(written: TemplateText, playbook: Playbook, compilation: Compilation) -> None:
    value = expression(written.text.strip().removeprefix(_DOLLAR))
    if value is None or "\n" in value:
        return
    plain = _DOLLAR + " " * (len(written.text) - 1)
    place = word_in(written.scalar, plain, 0, 1, playbook.source)
    amount = template(f"'$' ~ {value}" if value.replace(".", "_").isidentifier() else f"'$' ~ ({value})")
    message = f'"$" stays before the value, so {written.what} gets text such as "$5"'
    hint = f'write "{template(value)}"; for an amount of money "{amount}"'
    compilation.note("W_FOREIGN_NAME", place, message, hint)


def _values_in(node: Node) -> Iterator[Node]:
    """Scalars and mappings inside of a value, at any depth; of a mapping not the whole, whose keys have a meaning."""
    if isinstance(node, Scalar):
        yield node
    below = node.items if isinstance(node, Sequence) else node.values.values() if isinstance(node, Mapping) else ()
    for one in below:
        if isinstance(one, Mapping):
            yield one
        yield from _values_in(one)


def _braced_path(node: Node, playbook: Playbook) -> str | None:
    """The path that is all of a value, in braces that mean nothing here. YAML reads `{ load.rows }` without quotes as a
    mapping of one key without a value."""
    if isinstance(node, Scalar):
        text = node.value if isinstance(node.value, str) else ""
    else:
        is_pathlike = isinstance(node, Mapping) and len(node) == 1 and playbook.source is not None
        text = playbook.source.cut(node.span) if is_pathlike and playbook.source is not None else ""
    found = _BRACED.fullmatch(text.strip())
    return next(path for path in found.groups() if path is not None) if found is not None else None
