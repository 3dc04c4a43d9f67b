"""Checks of tool kinds, of the keys of `spec`, and of credentials.

The kind of a task is built in or from a plug-in (VAL-04, VAL-13, TOOL-13). Credentials that a task names or reads are
in the keychain (VAL-21, KEY-05). Whether the server keeps a credential of that name is not known here, so its absence
is only a warning. Older dialects need no keychain, so a document of theirs without one is not checked.
"""

from __future__ import annotations

from noetl.base.diagnostics import PositionedDiagnostic, is_template, nearest_word
from noetl.language.compiling.lowering.values import EXECUTOR_OPTIONS, LOOP_OPTIONS, loops_of, step_options
from noetl.language.compiling.passes import Compilation, every_task, head
from noetl.language.compiling.template_sites import written_texts
from noetl.language.compiling.text_positions import name_in, parsed
from noetl.language.grammar.root import KEYCHAIN_KINDS
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.old_keys import WORDS_OF_OTHERS, hint_for_foreign_word
from noetl.language.reading.playbook import Dialect, KeychainEntrySyntax, Playbook, TaskSyntax
from noetl.language.reading.shared_checks import did_you_mean, is_typo
from noetl.language.reading.steps import REPLACED_OPTIONS
from noetl.net.kinds import COMMON_SPEC
from noetl.net.secret_reads import credential_name

# Words people write as a kind, each with its own code and hint.
_NO_KINDS = {
    "sink": (
        "E_SINK",
        "there is no tool kind sink",
        "storage is a tool task that returns a reference, such as kind: postgres with table",
    ),
    "loop": (
        "E_LOOP_KIND",
        "loop is not a tool kind",
        "a loop modifies a step: loop: {in: …, iterator: …} beside tool",
    ),
    "iterator": (
        "E_TOOL_KIND",
        "iterator is not a tool kind",
        "a loop modifies a step: loop: {in: …, iterator: …} beside tool, which runs for each",
    ),
    "next": (
        "E_TOOL_KIND",
        "next is not a tool kind here",
        "routes belong to the step's next; kind: next exists in then lists of v2-case only",
    ),
}

# Words of other systems for an existing kind; they are not accepted in its place.
_MEANT = {
    **dict.fromkeys(("bash", "sh", "zsh", "command", "cmd", "exec"), "shell"),
    "code": "python",
    **dict.fromkeys(("api", "request", "curl"), "http"),
    "psql": "postgres",
    **dict.fromkeys(("s3", "blob", "azure"), "storage"),
    **dict.fromkeys(("mysql", "mariadb", "oracle", "mssql", "sqlserver", "sqlite", "clickhouse", "trino"), "sql"),
    **dict.fromkeys(("mail", "smtp"), "email"),
}

# Words of other systems for things that are no tools here.
_WAYS_OUT = {
    **{word: WORDS_OF_OTHERS[word] for word in ("sleep", "wait", "delay", "pause", "if", "condition", "switch")},
    **{
        word: WORDS_OF_OTHERS[word] for word in ("approval", "manual", "human", "foreach", "for_each", "map", "finally")
    },
    **dict.fromkeys(("timer", "cron"), WORDS_OF_OTHERS["sleep"]),
    **dict.fromkeys(("choice", "branch", "router", "gateway", "conditional"), WORDS_OF_OTHERS["if"]),
    **dict.fromkeys(("human_task", "user_task"), WORDS_OF_OTHERS["approval"]),
    **{word: WORDS_OF_OTHERS[word] for word in ("parallel", "fork", "while", "until", "goto")},
    "join": "a step that waits for the tokens of a fork has spec: {join: all}",
    "message": "a step that waits for a message has message: {name: …} in place of tool",
    "signal": "a step that waits for a signal has signal: {name: …} in place of tool",
    **dict.fromkeys(("set", "assign", "set_variable"), "write set_ctx: {name: …} on the step, or in a rule of a task"),
    **dict.fromkeys(("fail", "raise", "error"), "a rule of a task says do: fail, with error: {message: …}"),
}


def check_tool_kinds(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_TOOL_KIND, W_TOOL_KIND, E_LOOP_KIND and E_SINK."""
    for task, _ in every_task(playbook):
        _check(task, compilation)
    return playbook


def _check(task: TaskSyntax, compilation: Compilation) -> None:
    kind = compilation.kinds.get(task.kind)
    place = task.kind_node or head(task)
    if kind is not None:
        if kind.plugin is not None:
            message = f'tool kind "{task.kind}" is known, and a plug-in runs it'
            compilation.note("W_TOOL_KIND", place, message, f"install {kind.plugin} where workers run")
    elif task.kind in _NO_KINDS:
        code, message, hint = _NO_KINDS[task.kind]
        compilation.note(code, place, message, hint)
    else:
        _note_unknown(task.kind, place, compilation)


def _note_unknown(kind: str, place: PositionedDiagnostic, compilation: Compilation) -> None:
    meant = _MEANT.get(kind.lower())
    way_out = _WAYS_OUT.get(kind.lower()) if meant is None else None
    if compilation.extensions:
        message = f'tool kind "{kind}" is not built in, and no plug-in here provides it'
        hint = way_out or "a worker without it ends the task with tool.unknown_kind"
        compilation.note("W_TOOL_KIND", place, message, hint)
        return
    guess = meant if meant in compilation.kinds else nearest_word(kind, list(compilation.kinds))
    known = f"known kinds: {', '.join(compilation.kinds)}"
    hint = f'did you mean "{guess}"?' if guess else f"{known}; plug-ins add more (--allow-extensions)"
    compilation.note("E_TOOL_KIND", place, f'"{kind}" is not a tool kind', way_out or hint)


# Spec keys: an option that nothing reads is probably a slip (SPEC-05, C-30).

_COMMON = frozenset(knob.name for knob in COMMON_SPEC)


def check_spec_keys(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_SPEC_KEY, and I_TIMEOUT_SCOPE for a v10 step's timeout. The reader of v2-case knows its options itself."""
    executor = playbook.executor.spec if playbook.executor else None
    _check_outer(executor, EXECUTOR_OPTIONS, "executor.spec", compilation)
    if playbook.dialect is Dialect.V2_CASE:
        return playbook
    options = step_options(playbook.dialect.rules)
    for step in playbook.steps:
        _check_outer(step.spec, options, "a step's spec", compilation)
        for loop in loops_of(step.loop):
            _check_outer(loop.spec, _loop_options(playbook.dialect), "a loop's spec", compilation)
        if playbook.dialect.rules is Dialect.V10 and step.spec is not None and "timeout" in step.spec:
            compilation.note(
                "I_TIMEOUT_SCOPE",
                step.spec.keys["timeout"],
                "this timeout is the default of each task, not of the step",
                "for the whole step write spec.policy.lifecycle.timeout_s",
            )
    for task, _ in every_task(playbook):
        _check_task(task, compilation)
    return playbook


def _loop_options(dialect: Dialect) -> frozenset[str]:
    """Without those that the dialect's reader refuses: a hint must not propose them."""
    return LOOP_OPTIONS - REPLACED_OPTIONS.keys() if dialect.rules is Dialect.V10 else LOOP_OPTIONS


def _check_outer(spec: Mapping | None, options: frozenset[str], what: str, compilation: Compilation) -> None:
    """An outer spec may hold the construct's options and the options of the kinds of its tasks (SPEC-02)."""
    # Plug-ins are searched for only if an unknown option makes it necessary.
    if spec is None or spec.keys.keys() <= options | _COMMON:
        _check_retry(spec, compilation)
        return
    knobs = _COMMON | {knob.name for name in compilation.kinds for knob in compilation.kinds[name].spec}
    hint = f"its own options are {', '.join(sorted(options))}; others are knobs of its tasks"
    _check_spec(spec, options | knobs, what, hint, compilation)


def _check_task(task: TaskSyntax, compilation: Compilation) -> None:
    kind = compilation.kinds.get(task.kind)
    if kind is None or kind.takes_anything:
        return
    known = _COMMON | {knob.name for knob in kind.spec}
    hint = f"known are {', '.join(sorted(known))}"
    _check_spec(task.spec, known | {"policy"}, f"the spec of kind {task.kind}", hint, compilation)


def _check_spec(
    spec: Mapping | None, known: frozenset[str], what: str, otherwise: str, compilation: Compilation
) -> None:
    _check_retry(spec, compilation)
    for key, place, _ in spec.items() if spec is not None else ():
        # An option that another check refused: its code already names the alternative.
        if key not in known and not compilation.findings.refuses(place):
            hint = hint_for_foreign_word(key) or did_you_mean(key, known, otherwise)
            compilation.note("W_SPEC_KEY", place, f'"{key}" is not an option in {what} and is ignored', hint)


_RETRY_PARTS = ("attempts", "delay", "backoff")


def _check_retry(spec: Mapping | None, compilation: Compilation) -> None:
    """`spec.retry`: with an unknown part, the tool would run once, without any message."""
    retry = spec.get("retry") if spec is not None else None
    for key, place, _ in retry.items() if isinstance(retry, Mapping) else ():
        if key not in _RETRY_PARTS:
            hint = did_you_mean(key, _RETRY_PARTS)
            compilation.note("E_SPEC_OPTION", place, f'"{key}" is not a part of spec.retry', hint)


def check_credentials(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_KEYCHAIN, for a literal `auth` and for `keychain.name` in templates; E_KEYCHAIN for a misspelt kind."""
    if playbook.dialect.rules is not Dialect.V10 and not playbook.keychain:
        return playbook
    declared = [entry.name for entry in playbook.keychain]
    for entry in playbook.keychain:
        _check_kind(entry, compilation)
    for task, _ in every_task(playbook):
        auth = task.inputs.get("auth")
        # an address in `auth` is no name, and may contain a password: it is not shown
        named = credential_name(auth.value) if isinstance(auth, Scalar) else None
        if auth is not None and named is not None and not is_template(named) and named not in declared:
            message = f'"{named}" is not in the keychain; a stored credential of that name must exist'
            _note(auth, named, message, declared, compilation)
    for written in written_texts(playbook, compilation):
        template = parsed(written.text) if "keychain" in written.text else None
        for read in template.references if template else ():
            name = read.path[0] if read.root == "keychain" and read.path else None
            if isinstance(name, str) and name not in declared:
                place = name_in(written.scalar, "keychain", playbook.source)
                _note(place, name, f'the keychain has no entry "{name}"', declared, compilation)
    return playbook


def _check_kind(entry: KeychainEntrySyntax, compilation: Compilation) -> None:
    """An unknown kind may be that of a plug-in; one that is nearly a known one fails every run."""
    if entry.kind in KEYCHAIN_KINDS or is_template(entry.kind):
        return
    misspelt = is_typo(entry.kind, KEYCHAIN_KINDS)
    known = f"built in are {', '.join(KEYCHAIN_KINDS)}"
    hint = did_you_mean(entry.kind, KEYCHAIN_KINDS) if misspelt else f"{known}; others need a plug-in where servers run"
    message = f'keychain entry "{entry.name}" is of kind "{entry.kind}", which is not a known kind'
    compilation.note("E_KEYCHAIN" if misspelt else "W_KEYCHAIN", entry.node.values["kind"], message, hint)


def _note(place: PositionedDiagnostic, name: str, message: str, declared: list[str], compilation: Compilation) -> None:
    guess = nearest_word(name, declared)
    hint = f'did you mean "{guess}"?' if guess else f"add - {{name: {name}, kind: credential}} under keychain"
    compilation.note("W_KEYCHAIN", place, message, hint)
