"""Angles of OpenQASM: arithmetic over numbers, `pi` and parameters. Nothing else can be written, so nothing runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from noetl.tools.quantum.circuits import invalid

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "exp": math.exp,
    "ln": math.log,
    "sqrt": math.sqrt,
}
_CONSTANTS = {"pi": math.pi, "π": math.pi, "tau": math.tau, "euler": math.e}
_DEEPEST = 50


class AngleParser:
    """Reads one expression from words, by precedence: sums, products, signs, powers, single values."""

    def __init__(self, words: list[str], names: Mapping[str, float], where: str) -> None:
        self._words, self._names, self._where, self._at, self._depth = words, names, where, 0, 0

    def value(self) -> float:
        try:
            found = self._sum()
        except (ArithmeticError, ValueError) as problem:
            raise self._wrong(str(problem)) from None
        if self._at < len(self._words):
            raise self._wrong(f'"{self._words[self._at]}" was not expected')
        return found

    def _sum(self) -> float:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong("it is nested too deep")
        found = self._product()
        while (sign := self._next("+", "-")) is not None:
            found = found + self._product() if sign == "+" else found - self._product()
        self._depth -= 1
        return found

    def _product(self) -> float:
        found = self._signed()
        while (sign := self._next("*", "/")) is not None:
            found = found * self._signed() if sign == "*" else found / self._signed()
        return found

    def _signed(self) -> float:
        negative = False
        while (sign := self._next("+", "-")) is not None:
            negative ^= sign == "-"
        found = self._power()
        return -found if negative else found

    def _power(self) -> float:
        found = self._single()
        return float(found ** self._signed()) if self._next("^", "**") is not None else found

    def _single(self) -> float:
        if self._at == len(self._words):
            raise self._wrong("it ends too early")
        word = self._words[self._at]
        self._at += 1
        if word == "(":
            return self._closed()
        if word in _FUNCTIONS and self._next("(") is not None:
            return _FUNCTIONS[word](self._closed())
        if word in self._names:
            return self._names[word]
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        try:
            return float(word)
        except ValueError:
            raise self._wrong(f'"{word}" is no number and no parameter of this circuit') from None

    def _closed(self) -> float:
        found = self._sum()
        if self._next(")") is None:
            raise self._wrong('a ")" is missing')
        return found

    def _next(self, *wanted: str) -> str | None:
        if self._at < len(self._words) and self._words[self._at] in wanted:
            self._at += 1
            return self._words[self._at - 1]
        return None

    def _wrong(self, what: str) -> Exception:
        return invalid(f"{self._where}: in the angle {' '.join(self._words)}: {what}")
