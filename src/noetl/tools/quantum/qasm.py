"""OpenQASM: the part of versions 2 and 3 that describes a circuit, and the arithmetic of its angles.

Supported are registers, the standard gates, gates defined in the text, measurement, reset, barriers and `input`
parameters. Classical control and further files are refused by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from noetl.tools.quantum import circuits

_WORD = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|("[^"]*")|(\*\*|->|==|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|\w+|\S)', re.DOTALL)
_IGNORED = frozenset({"OPENQASM", "include", "pragma", "#pragma"})
_REFUSED = frozenset(
    {"if", "for", "while", "def", "opaque", "switch", "box", "delay", "cal", "defcal", "extern", "let"}
)
_MAX_TEXT = 1_000_000
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


class _Defined(msgspec.Struct, frozen=True):
    angles: tuple[str, ...]
    qubits: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]


def parsed(text: str, parameters: Mapping[str, float]) -> circuits.Circuit:
    """The circuit that a text describes. Raises ToolError `quantum.circuit`, which quotes the statement that is
    wrong."""
    if len(text) > _MAX_TEXT:
        raise circuits.invalid(f"the text has more than {_MAX_TEXT} characters")
    reading = _Program(parameters)
    for number, statement in enumerate(_statements(text), 1):
        reading.read(statement, f"statement {number}")
    return circuits.Circuit(reading.qubits, reading.bits, tuple(reading.operations))


def _statements(text: str) -> Iterator[list[str]]:
    """The words up to each `;`; a gate's definition up to its closing brace."""
    words: list[str] = []
    depth = 0
    for match in _WORD.finditer(text):
        word = match.group(1) or match.group(2)
        if word is None:
            continue
        depth += (word == "{") - (word == "}")
        if (word == ";" and not depth) or (word == "}" and not depth):
            yield [*words, word] if word == "}" else words
            words = []
        else:
            words.append(word)
    if words:
        raise circuits.invalid(f'the last statement, {" ".join(words)[:60]}, does not end with ";"')


class _Program:
    def __init__(self, parameters: Mapping[str, float]) -> None:
        self._names = dict(parameters)
        self._registers: dict[str, range] = {}
        self._bits: dict[str, range] = {}
        self._gates: dict[str, _Defined] = {}
        self.operations: list[circuits.Operation] = []
        self.qubits = self.bits = 0

    def read(self, words: list[str], where: str) -> None:
        if not words or words[0] in _IGNORED:
            return
        match words[0]:
            case word if word in _REFUSED:
                raise circuits.invalid(f'{where}: "{word}" is not supported here')
            case "qreg" | "qubit":
                name, places = self._register(words, where, self.qubits)
                self._registers[name], self.qubits = places, places.stop
            case "creg" | "bit":
                name, places = self._register(words, where, self.bits)
                self._bits[name], self.bits = places, places.stop
            case "input":
                if words[-1] not in self._names:
                    raise circuits.invalid(f'{where}: the parameter "{words[-1]}" is not given')
            case "gate":
                self._define(words, where)
            case "measure":
                self._measure(words[1:], where)
            case "barrier":
                pass
            case _ if "measure" in words:
                at = words.index("measure")
                # `c = measure q` of version 3, reordered as in version 2; the word before "measure" is the equals sign.
                self._measure([*words[at + 1 :], "->", *words[: at - 1]], where)
            case _:
                self._apply(words, where)
        if len(self.operations) > circuits.MAX_OPERATIONS:
            raise circuits.invalid(f"a circuit has at most {circuits.MAX_OPERATIONS} operations")

    def _register(self, words: list[str], where: str, first: int) -> tuple[str, range]:
        """`qreg q[2]` of version 2, `qubit[2] q` or `qubit q` of version 3."""
        match words[1:]:
            case [name, "[", size, "]"] if name.isidentifier() and size.isdecimal():
                pass
            case ["[", size, "]", name] if name.isidentifier() and size.isdecimal():
                pass
            case [name] if name.isidentifier():
                size = "1"
            case _:
                raise circuits.invalid(f"{where}: {' '.join(words)} is no register")
        if first + int(size) > circuits.MAX_QUBITS:
            raise circuits.invalid(f"{where}: there are at most {circuits.MAX_QUBITS} qubits or bits")
        return name, range(first, first + int(size))

    def _define(self, words: list[str], where: str) -> None:
        if "{" not in words:
            raise circuits.invalid(f"{where}: a gate's definition needs a body in braces")
        at = words.index("{")
        head, body = words[1:at], words[at + 1 : -1]
        angles: tuple[str, ...] = ()
        name, rest = head[0], head[1:]
        if rest[:1] == ["("]:
            close = rest.index(")") if ")" in rest else len(rest)
            angles, rest = tuple(word for word in rest[1:close] if word != ","), rest[close + 1 :]
        lines = [tuple(line) for line in _split(body, ";") if line]
        self._gates[name] = _Defined(angles, tuple(word for word in rest if word != ","), tuple(lines))

    def _measure(self, words: list[str], where: str) -> None:
        if "->" not in words:
            raise circuits.invalid(f"{where}: measure needs a bit to write: measure q -> c, or c = measure q")
        at = words.index("->")
        qubits, bits = self._at(words[:at], self._registers, where), self._at(words[at + 1 :], self._bits, where)
        if len(qubits) != len(bits):
            raise circuits.invalid(f"{where}: {len(qubits)} qubits cannot be measured into {len(bits)} bits")
        self.operations += [
            circuits.Operation(circuits.MEASURE, (qubit,), bit=bit) for qubit, bit in zip(qubits, bits, strict=True)
        ]

    def _at(self, words: Sequence[str], registers: Mapping[str, range], where: str) -> list[int]:
        """A whole register, or one element of it."""
        match list(words):
            case [name] if name in registers:
                return list(registers[name])
            case [name, "[", index, "]"] if name in registers and index.isdecimal():
                if int(index) < len(registers[name]):
                    return [registers[name][int(index)]]
        raise circuits.invalid(f"{where}: {' '.join(words)} is no register here, or none of it")

    def _apply(self, words: Sequence[str], where: str) -> None:
        name, angles, operands = _call(words, where)
        values = [AngleParser(angle, self._names, where).value() for angle in angles]
        each = [self._at(operand, self._registers, where) for operand in operands]
        width = max((len(one) for one in each), default=0)
        if not width or any(len(one) not in (1, width) for one in each):
            raise circuits.invalid(f"{where}: {name} has no qubits, or registers of different sizes")
        for index in range(width):
            self._gate(name, values, [one[index if len(one) > 1 else 0] for one in each], where, depth=0)

    def _gate(self, name: str, angles: Sequence[float], qubits: Sequence[int], where: str, depth: int) -> None:
        if name == circuits.RESET:
            self.operations.append(circuits.Operation(circuits.RESET, tuple(qubits)))
            return
        defined = self._gates.get(name)
        if defined is None or (circuits.canonical_name(name) is not None and depth == 0 and name not in self._gates):
            self.operations.append(circuits.checked(name, qubits, angles, where))
            return
        # Definitions may call each other, and double with each level: both the depth and the number are bounded.
        if depth > 20 or len(self.operations) > circuits.MAX_OPERATIONS:
            raise circuits.invalid(f'{where}: the gate "{name}" leads to itself, or to too many others')
        if len(angles) != len(defined.angles) or len(qubits) != len(defined.qubits):
            raise circuits.invalid(f'{where}: the gate "{name}" is not defined for these qubits and angles')
        names = {**self._names, **dict(zip(defined.angles, angles, strict=True))}
        places = dict(zip(defined.qubits, qubits, strict=True))
        for line in defined.body:
            if line[0] == circuits.BARRIER:
                continue
            inner, written, operands = _call(line, where)
            values = [AngleParser(angle, names, where).value() for angle in written]
            try:
                inside = [places[operand[0]] for operand in operands]
            except KeyError as missing:
                raise circuits.invalid(f"{where}: {missing} is no qubit of the gate {name}") from None
            self._gate(inner, values, inside, where, depth + 1)


def _call(words: Sequence[str], where: str) -> tuple[str, list[list[str]], list[list[str]]]:
    """The parts of `name(angle, …) operand, …`."""
    name, rest = words[0], list(words[1:])
    angles: list[list[str]] = []
    if rest[:1] == ["("]:
        depth, close = 0, -1
        for index, word in enumerate(rest):
            depth += (word == "(") - (word == ")")
            if not depth:
                close = index
                break
        if close < 0:
            raise circuits.invalid(f'{where}: a ")" is missing')
        angles = [part for part in _split(rest[1:close], ",") if part]
        rest = rest[close + 1 :]
    return name, angles, [part for part in _split(rest, ",") if part]


def _split(words: Sequence[str], at: str) -> list[list[str]]:
    """The parts between separators outside of parentheses."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == at and not depth:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


# Angles of OpenQASM: arithmetic over numbers, `pi` and parameters. The grammar allows nothing else, so no code can run.


class AngleParser:
    """Reads one expression by precedence: sums, products, signs, powers, single values."""

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
        # Every parenthesis recurses to here: this bounds the nesting.
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong("it is nested too deep")
        found = self._product()
        while (sign := self._next("+", "-")) is not None:
            found = found + self._product() if sign == "+" else found - self._product()
        self._depth -= 1
        return found

    def _product(self) -> float:
        found = self._signed_factor()
        while (sign := self._next("*", "/")) is not None:
            found = found * self._signed_factor() if sign == "*" else found / self._signed_factor()
        return found

    def _signed_factor(self) -> float:
        negative = False
        while (sign := self._next("+", "-")) is not None:
            negative ^= sign == "-"
        found = self._power()
        return -found if negative else found

    def _power(self) -> float:
        found = self._single()
        return float(found ** self._signed_factor()) if self._next("^", "**") is not None else found

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
        return circuits.invalid(f"{self._where}: in the angle {' '.join(self._words)}: {what}")
