"""Statements: `if`, `for`, `set`, `with` and `filter` blocks, and the text between, as functions that write into a run.

A loop pays for the size of its body before every round, so the budget applies to any body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.attribute_access import LoopVariable, elements
from noetl.templates.budget import Evaluation
from noetl.templates.filters import find
from noetl.templates.output import written
from noetl.templates.program import Code, expression, guarded
from noetl.templates.syntax import children
from noetl.templates.values import described, settled, walked

Bind = Callable[[Evaluation, Any], None]


def block(body: list[Any]) -> Code:
    """The function that runs statements in order."""
    steps = [_STATEMENTS[type(node).__name__](node) for node in body]

    def execute(run: Evaluation) -> None:
        for step in steps:
            step(run)

    return execute


def document(body: list[Any]) -> Code:
    """The function that gives the text of a whole template."""
    execute = block(body)
    return lambda run: _captured(run, execute)


def _captured(run: Evaluation, execute: Code) -> str:
    # The text of the block is collected separately; afterwards the outer output continues.
    outer, run.out = run.out, []
    execute(run)
    inner, run.out = run.out, outer
    run.fits(sum(map(len, inner)))
    return run.text("".join(inner))


def _output(node: Any) -> Code:
    parts = [(expression(part), None if type(part).__name__ == "TemplateData" else part) for part in node.nodes]

    def write(run: Evaluation) -> None:
        for code, part in parts:
            value = code(run)
            if run.record is None or part is None:
                run.out.append(run.text(written(run, value)))
            else:
                run.out.append(run.record(run, part, value))

    return write


def _if_code(node: Any) -> Code:
    branches = [(expression(node.test), block(node.body))]
    branches += [(expression(branch.test), block(branch.body)) for branch in node.elif_]
    otherwise = block(node.else_)

    def choose(run: Evaluation) -> None:
        for test, body in branches:
            if walked(test(run)):
                body(run)
                return
        otherwise(run)

    return choose


def _for_code(node: Any) -> Code:
    source, bind = expression(node.iter), _target(node.target)
    keep = expression(node.test) if node.test is not None else None
    body, otherwise = block(node.body), block(node.else_)
    weight, asking = sum(map(_weight, node.body)) + 4, _weight(node.test) + 4 if node.test is not None else 0

    def loop(run: Evaluation) -> None:
        outer = run.locals
        names = len(outer) >> 3  # they are copied for every round
        items = _filtered_items(run, elements(run, source(run)), bind, keep, asking + names)
        state = LoopVariable(items)
        for index, item in enumerate(items):
            run.spend(weight + names)
            state.move(index)
            # A copy for each round: assignments of a round end with it, as in Jinja2.
            run.locals = {**outer, "loop": state}
            bind(run, item)
            body(run)
        run.locals = outer
        if not items:
            otherwise(run)

    return loop


def _filtered_items(run: Evaluation, items: Sequence[Any], bind: Bind, keep: Code | None, weight: int) -> Sequence[Any]:
    """The items for which the `if` of the loop is true."""
    if keep is None:
        return items
    outer, kept = run.locals, []
    run.reserve(len(items))
    for item in items:
        run.spend(weight)
        run.locals = dict(outer)
        bind(run, item)
        if walked(keep(run)):
            kept.append(item)
    run.locals = outer
    return kept


def _weight(node: Any) -> int:
    return 1 + sum(map(_weight, children(node)))


def _set(node: Any) -> Code:
    value, bind = expression(node.node), _target(node.target)

    def assign(run: Evaluation) -> None:
        bind(run, value(run))

    return assign


def _set_block(node: Any) -> Code:
    body, bind = block(node.body), _target(node.target)
    turn = _filter_chain(node.filter)

    def assign(run: Evaluation) -> None:
        bind(run, turn(run, _captured(run, body)))

    return assign


def _with_code(node: Any) -> Code:
    bindings = [(_target(target), expression(value)) for target, value in zip(node.targets, node.values, strict=True)]
    body = block(node.body)

    def execute(run: Evaluation) -> None:
        outer = run.locals
        run.spend(1 + (len(outer) >> 3))
        # All values before any name is bound: `{% with a = b, b = a %}` reads the names outside.
        values = [value(run) for _, value in bindings]
        run.locals = dict(outer)
        for (bind, _), value in zip(bindings, values, strict=True):
            bind(run, value)
        body(run)
        run.locals = outer

    return execute


def _filter_block(node: Any) -> Code:
    body, turn = block(node.body), _filter_chain(node.filter)

    def execute(run: Evaluation) -> None:
        run.out.append(run.text(written(run, turn(run, _captured(run, body)))))

    return execute


def _filter_chain(node: Any) -> Callable[[Evaluation, Any], Any]:
    """The filters of a `filter` or `set` block, innermost first; the innermost has no operand of its own."""
    if node is None:
        return lambda run, value: value
    inner, apply = _filter_chain(node.node), find(node.name)
    args = [expression(arg) for arg in node.args]
    options = {option.key: expression(option.value) for option in node.kwargs}
    return lambda run, value: guarded(apply, f'filter "{node.name}"', run, inner(run, value), args, options)


def _target(node: Any) -> Bind:
    """The function that binds a value to a name, or its elements to several."""
    if type(node).__name__ == "Name":
        name = node.name

        def bind(run: Evaluation, value: Any) -> None:
            run.locals[name] = value

        return bind
    targets = [_target(item) for item in node.items]

    def unpack(run: Evaluation, value: Any) -> None:
        parts = settled(value)
        if not isinstance(parts, list | tuple) or len(parts) != len(targets):
            raise TemplateError(f"{described(parts)} cannot be spread over {len(targets)} names")
        for target, part in zip(targets, parts, strict=True):
            target(run, part)

    return unpack


_STATEMENTS: dict[str, Callable[[Any], Code]] = {
    "Output": _output,
    "If": _if_code,
    "For": _for_code,
    "Assign": _set,
    "AssignBlock": _set_block,
    "With": _with_code,
    "FilterBlock": _filter_block,
}
