"""Arithmetic: the operators of templates over numbers, text, lists, times and durations.

Every operator checks the size of its result before making it (reliability.md §2.1) and refuses types that it is not
defined for; nothing is converted silently, so `"1" + 1` is an error and `"1" ~ 1` is `11`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates import budget
from noetl.templates.budget import MAX_INTEGER_BITS, Evaluation
from noetl.templates.output import percent_format
from noetl.templates.values import SEQUENCES, Missing, described, is_number, settled, undefined_error

Operator = Callable[[Evaluation, Any, Any], Any]


def _plus(run: Evaluation, left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        return _checked_size(left + right)
    if isinstance(left, str) and isinstance(right, str):
        run.fits(len(left) + len(right))
        return run.text(left + right)
    if isinstance(left, SEQUENCES) and isinstance(right, SEQUENCES):
        run.reserve(len(left) + len(right))
        return run.own([*left, *right])
    if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        return left + right  # type: ignore[operator]  # time + time is caught with the rest
    raise _mismatch("added", left, right, "join as text with ~, or convert with | int")


def _minus(run: Evaluation, left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        return _checked_size(left - right)
    if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        return left - right  # type: ignore[operator]
    raise _mismatch("subtracted", left, right, "convert with | int or | float")


def _times(run: Evaluation, left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        if isinstance(left, int) and isinstance(right, int):
            # The product has at most as many bits as both together, so it need not be made to know that it is too
            # large.
            _bits(left.bit_length() + right.bit_length())
            run.spend(budget.multiplying(left, right))
        return left * right
    # `3 * "ab"` as well as `"ab" * 3`: from here on the text or list is on the left.
    if isinstance(left, int) and not is_number(right):
        left, right = right, left
    if isinstance(left, timedelta) and is_number(right):
        return left * right
    if isinstance(right, int) and isinstance(left, str):
        run.fits(len(left) * right)
        return run.text(left * right)
    if isinstance(right, int) and isinstance(left, list | tuple):
        run.reserve(len(left) * max(right, 0))
        return run.own(left * right)
    raise _mismatch("multiplied", left, right, "convert with | int or | float")


def _formatted(run: Evaluation, left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        run.spend(budget.multiplying(left, right))
        return left / right
    if isinstance(left, timedelta) and (is_number(right) or isinstance(right, timedelta)):
        return left / right
    raise _mismatch("divided", left, right, "convert with | int or | float")


def _floor_over(run: Evaluation, left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        run.spend(budget.multiplying(left, right))
        return left // right
    raise _mismatch("divided", left, right, "convert with | int or | float")


def _modulo(run: Evaluation, left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        run.spend(budget.multiplying(left, right))
        return left % right
    if isinstance(left, str):
        return percent_format(run, left, right)
    raise _mismatch("divided", left, right, "convert with | int or | float")


def _power(run: Evaluation, left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        raise _mismatch("raised to a power", left, right, "convert with | int or | float")
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        # An upper bound of the size, checked before the power is computed.
        _bits(left.bit_length() * right)
        run.spend(left.bit_length() * right >> 6)
    result = left**right
    if isinstance(result, complex):
        raise TemplateError("a negative number has no fractional power")
    return result


_OPERATIONS: dict[str, Operator] = {
    "Add": _plus,
    "Sub": _minus,
    "Mul": _times,
    "Div": _formatted,
    "FloorDiv": _floor_over,
    "Mod": _modulo,
    "Pow": _power,
}


def operator(name: str) -> Operator:
    """The operator of a syntax node, guarded against undefined operands and numeric failures."""
    operation = _OPERATIONS[name]

    def apply(run: Evaluation, left: Any, right: Any) -> Any:
        left, right = settled(left), settled(right)
        for operand in (left, right):
            # Arithmetic with undefined is an error, unlike a comparison: no number could replace it (TPL-03).
            if isinstance(operand, Missing):
                raise undefined_error(operand)
        try:
            return operation(run, left, right)
        except ZeroDivisionError:
            raise TemplateError("division by zero") from None
        except (OverflowError, TypeError):  # TypeError: time + time, and other pairs datetime itself refuses
            raise _mismatch("combined", left, right, "the result would be out of range or has no meaning") from None

    return apply


def negated(run: Evaluation, value: Any) -> Any:
    return _signed(value, -1)


def affirmed(run: Evaluation, value: Any) -> Any:
    return _signed(value, 1)


def _signed(value: Any, sign: int) -> Any:
    value = settled(value)
    if isinstance(value, Missing):
        raise undefined_error(value)
    if not (is_number(value) or isinstance(value, timedelta)):
        raise TemplateError(f"{described(value)} has no sign: convert it with | int or | float")
    return value * sign


def _checked_size(result: Any) -> Any:
    if isinstance(result, int):
        _bits(result.bit_length())
    return result


def _bits(bits: int) -> None:
    if bits > MAX_INTEGER_BITS:
        raise TemplateError(f"a number would need more than {MAX_INTEGER_BITS:,} bits")


def _mismatch(verb: str, left: Any, right: Any, way_out: str) -> TemplateError:
    return TemplateError(f"{described(left)} and {described(right)} cannot be {verb}: {way_out}")
