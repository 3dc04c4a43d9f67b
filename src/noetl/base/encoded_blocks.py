"""Parts of a text in which a secret stands on several lines or within compressed data: base64 in lines, dumps (xxd,
hexdump, od, curl --trace, tcpdump), quoted-printable mail, and gzip or zlib in base64.

This module decodes such a part as far as a search needs it, and says which characters of the text hold what was found.
It masks nothing itself. What it reads and unpacks is bounded by the size of the text.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

Span = tuple[int, int]
FindSpans = Callable[[str], Iterable[Span]]  # where secrets stand in a text

_CODE = "[A-Za-z0-9+/_-]"
_PACKED_HEAD = "(?:H4sI|eJ[w-z]|eN[o-r]|eA[E-H]|eF[4-7]|SDRzS)"  # gzip, zlib, and gzip that was encoded twice (Helm)
# Where a text may have such a part. Each begins with fixed characters, so that a text without them costs little.
_HINTS = (
    r"0000[0-9a-fA-F]{0,12}(?::| -|)[ \t]+[^ \t]{1,8}[ -]",  # the number of the first byte in a line, and that byte
    rf"\n(?<={_CODE}{{60}}\n)",
    rf"\r\n(?<={_CODE}{{60}}\r\n)",
    r"\n(?<=[0-9a-fA-F]{2}[ :-][0-9a-fA-F]{2}\n)",  # bytes without a number in front
    r"\n(?<=[0-9a-fA-F]{2}:[0-9a-fA-F]{2}:\n)",
    r"\n(?<=, 0x[0-9a-fA-F]{2},\n)",
    r"=\n",
    r"=\r\n",
    rf"{_PACKED_HEAD}{_CODE}{{16}}",
)
_TEXT_HINTS = tuple(re.compile(hint) for hint in _HINTS)
_JSON_HINTS = tuple(re.compile(re.sub(r"\\([nrt])", r"\\\\\1", hint).encode()) for hint in _HINTS)

LONGEST_HINT = 128  # characters, with what stands in front of it

_LINE = re.compile(r"[^\r\n]+")
_FULL_LINE = re.compile(rf"[ \t]*({_CODE}{{60,128}})[ \t]*")
_LAST_LINE = re.compile(rf"[ \t]*({_CODE}+)={{0,2}}[ \t]*")
_PACKED = re.compile(rf"(?<!{_CODE}){_PACKED_HEAD}{_CODE}{{16,}}(?:[ \t]*\r?\n[ \t]*{_CODE}{{4,}})*")
_LEADING_CODE = re.compile(rf"[ \t]*{_CODE}+={{0,2}}")
_FULL_WIDTH, _MOST_WIDTH = 60, 128  # characters of a line of base64: MIME, PEM, `base64 -w`
_PACKED_END = re.compile(rf"(?<!{_CODE}){_PACKED_HEAD}{_CODE}{{36,}}$")
_TO_STANDARD = str.maketrans("-_", "+/", " \t\r\n")

_OFFSET = re.compile(r"[ \t]*(?:0x)?[0-9a-fA-F]{4,16}(:| -)?[ \t]+")
_HEX_GROUP = re.compile(r"((?:[0-9a-fA-F]{2}){1,8})(?: {1,2}|-|\t|$|(?=[|>]))")
_BYTES = re.compile(r"[ \t]*(?:0x)?[0-9a-fA-F]{2}(?:(?:[ :-]|, ?)(?:0x)?[0-9a-fA-F]{2}){3,}[ :,]?[ \t]*")
_BYTE = re.compile(r"(?:0x)?([0-9a-fA-F]{2})")
_OCTAL_WORDS = re.compile(r"[0-7]{7}((?: [0-7]{6}){1,8})")
_CHARACTERS = re.compile(r"[0-7]{7}((?:   .|  \\.| [0-7]{3}){1,16})")
_ESCAPED = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}

_LEAST_SHOWN = {"dump": 3, "base64": 4, "mail": 6}  # characters at the end of a line that may begin a secret
_LEAST_BUDGET, _BUDGET_FACTOR = 1 << 20, 8
_STEP = 4_096  # bytes that are unpacked at once

Kind = Literal["dump", "base64", "mail"]


class EncodedLine(msgspec.Struct, frozen=True):
    """A line of such a part. `cells` are the places of each character of the payload in it; without them, the payload
    is the text of the line from `start`. `beside` is what shows the payload once more."""

    kind: Kind
    payload: str
    start: int = 0
    cells: tuple[Span, ...] = ()
    beside: Span | None = None
    ends: bool = False  # nothing follows it

    def spans(self, first: int, last: int) -> Iterator[Span]:
        """The places in the line of these characters of its payload."""
        if not self.cells:
            yield self.start + first, self.start + last
            return
        # Bytes of a word may stand in reverse order, so the first place need not be that of the first character.
        cells = self.cells[first:last]
        yield min(start for start, _ in cells), max(stop for _, stop in cells)
        if self.beside is not None:
            yield self.beside


class UnpackBudget:
    """Bytes that may still be unpacked: in proportion to the text that is looked through."""

    def __init__(self, size: int) -> None:
        self.left = _LEAST_BUDGET + _BUDGET_FACTOR * size


def may_be_encoded(text: str) -> bool:
    return any(hint.search(text) for hint in _TEXT_HINTS)


def json_may_be_encoded(body: bytes) -> bool:
    """Whether a text of this JSON document may have such a part."""
    return any(hint.search(body) for hint in _JSON_HINTS)


def encoded_spans(text: str, find: FindSpans, budget: UnpackBudget) -> Iterator[Span]:
    """Where the parts of `text` hold what `find` finds in their payload."""
    if not may_be_encoded(text):
        return
    for block in _blocks(text):
        # Where each line begins in the joined payload.
        begins = [0]
        for _, line in block:
            begins.append(begins[-1] + len(line.payload))
        for start, stop in find("".join(line.payload for _, line in block)):
            lines = range(bisect_right(begins, start) - 1, bisect_right(begins, stop - 1))
            if not block[0][1].cells:  # with the line ends between
                first, last = lines[0], lines[-1]
                yield (
                    _position_in_text(block[first], start - begins[first]),
                    _position_in_text(block[last], stop - begins[last]),
                )
                continue
            for at in lines:
                offset, line = block[at]
                first, last = max(start - begins[at], 0), min(stop - begins[at], len(line.payload))
                if first < last:
                    yield from ((offset + one, offset + other) for one, other in line.spans(first, last))
    for match in _PACKED.finditer(text):
        unpacked = unpacked_text(match.group(), budget)
        if unpacked and next(iter(find(unpacked)), None) is not None:
            yield match.span()


def _position_in_text(line: tuple[int, EncodedLine], at: int) -> int:
    return line[0] + line[1].start + at


def _blocks(text: str) -> Iterator[list[tuple[int, EncodedLine]]]:
    """Lines of one kind that follow each other, with the place where each begins."""
    block: list[tuple[int, EncodedLine]] = []
    for match in _LINE.finditer(text):
        before = block[-1][1] if block else None
        line = read_line(match.group(), before)
        if block and (line is None or before is None or before.ends or line.kind != before.kind):
            yield block
            block = []
        if line is not None:
            block.append((match.start(), line))
    if block:
        yield block


def read_line(line: str, before: EncodedLine | None) -> EncodedLine | None:
    """The line as part of such a text; `before` is the line in front of it if that was one."""
    if (full := _FULL_LINE.fullmatch(line)) is not None:
        return EncodedLine("base64", full.group(1), full.start(1))
    if (offset := _OFFSET.match(line)) is not None and (dumped := _dumped_line(line, offset)) is not None:
        return dumped
    if _BYTES.fullmatch(line) is not None:  # xxd -i, openssl -text, od -An
        cells = [(byte.start(1), byte.end(1)) for byte in _BYTE.finditer(line)]
        return EncodedLine("dump", _bytes_at(line, cells), cells=tuple(cells))
    goes_on = before is not None and not before.ends
    if before is not None and goes_on and before.kind == "base64" and (last := _LAST_LINE.fullmatch(line)) is not None:
        return EncodedLine("base64", last.group(1), last.start(1), ends=True)
    if line.endswith("="):
        return EncodedLine("mail", line[:-1])
    if before is not None and goes_on and before.kind == "mail":
        return EncodedLine("mail", line, ends=True)
    return None


def _dumped_line(line: str, offset: re.Match[str]) -> EncodedLine | None:
    if (characters := _CHARACTERS.fullmatch(line)) is not None:  # od -c
        places = [(at, at + 4) for at in range(characters.start(1), len(line), 4)]
        signs = [line[start:stop].strip() or " " for start, stop in places]
        payload = "".join(_ESCAPED.get(sign, sign if len(sign) == 1 else _octal(sign)) for sign in signs)
        return EncodedLine("dump", payload, cells=tuple(places))
    if _OCTAL_WORDS.fullmatch(line) is not None:  # od
        places = [(at, at + 6) for at in range(8, len(line), 7)]
        words = [int(line[start:stop], 8) for start, stop in places]
        payload = "".join(chr(byte) for word in words for byte in (word & 255, word >> 8 & 255))
        return EncodedLine("dump", payload, cells=tuple(place for place in places for _ in range(2)))
    return _hexadecimal_line(line, offset)


def _octal(sign: str) -> str:
    return chr(int(sign, 8) & 255) if sign.isdigit() else "\0"  # one of \a \b \f \v, which no secret has


def _hexadecimal_line(line: str, offset: re.Match[str]) -> EncodedLine | None:
    cells: list[Span] = []
    at, width = offset.end(), 0
    most = 16 if len(line) < 80 else 32  # bytes of a line; what follows them may look like further ones
    while len(cells) < most and (group := _HEX_GROUP.match(line, at)) is not None:
        size = len(group.group(1))
        if width and size > width:
            break
        width = width or size
        places = [(place, place + 2) for place in range(at, at + size, 2)]
        # hexdump and od without an option write words of this machine: the second byte first.
        cells += reversed(places) if width > 2 and not offset.group(1) else places
        at = group.end()
        if size < width:
            break
    if not cells:
        return None
    beside = (at, len(line)) if at < len(line) else None
    return EncodedLine("dump", _bytes_at(line, cells), cells=tuple(cells), beside=beside)


def _bytes_at(line: str, cells: list[Span]) -> str:
    return "".join(chr(int(line[start:stop], 16)) for start, stop in cells)


def unpacked_text(code: str, budget: UnpackBudget) -> str:
    """What was compressed and written in base64, as far as the budget and the data go."""
    try:
        body = _decoded(code)
        if body.startswith(b"H4sI"):
            body = _decoded(body.decode("ascii"))
    except ValueError:
        return ""
    inflater, parts = zlib.decompressobj(wbits=47), list[bytes]()
    # In steps: what stands in front of a damaged place is readable.
    try:
        for at in range(0, len(body), _STEP):
            rest = body[at : at + _STEP]
            while rest and budget.left > 0 and not inflater.eof:
                parts.append(inflater.decompress(rest, min(budget.left, 1 << 16)))
                budget.left -= len(parts[-1])
                rest = inflater.unconsumed_tail
    except zlib.error:
        pass
    return b"".join(parts).decode(errors="replace")


def _decoded(code: str) -> bytes:
    plain = code.translate(_TO_STANDARD)
    return b64decode(plain[: len(plain) // 4 * 4])


class EncodedStream:
    """The same for lines that come one by one. A line that was shown cannot be masked any more: what may begin a secret
    at the end of a line is masked, and so is compressed data in lines, whatever it holds."""

    def __init__(self, longest: int, find: FindSpans, open_at: Callable[[str], int]) -> None:
        self._longest, self._find, self._open_at = longest, find, open_at
        self._before: EncodedLine | None = None
        self._context = ""
        self._is_packed = False

    def spans(self, text: str, *, is_piece: bool) -> list[Span]:
        """What to mask of the next line; a piece is the beginning of a line that is not complete."""
        if (packed := self._packed_span(text, is_piece=is_piece)) is not None:
            self._before, self._context = None, ""
            return [packed]
        before, line = self._before, read_line(text, self._before)
        self._before = line
        if line is None:
            return []
        if before is None or before.ends or before.kind != line.kind:
            self._context = ""
        joined, known = self._context + line.payload, len(self._context)
        spans, cut = [*self._find(joined)], self._open_at(joined)
        if len(joined) - cut >= _LEAST_SHOWN[line.kind]:
            spans.append((cut, len(joined)))
        self._context = joined[-self._longest :]
        behind = [(max(start - known, 0), stop - known) for start, stop in spans if stop > known]
        return sorted(place for start, stop in behind for place in line.spans(start, stop))

    def _packed_span(self, text: str, *, is_piece: bool) -> Span | None:
        if self._is_packed:
            run = _LEADING_CODE.match(text)
            stop = run.end() if run is not None else 0
            self._is_packed = stop == len(text) >= _FULL_WIDTH
            return (0, stop) if stop else None
        head = _PACKED_END.search(text)
        if head is None or not (is_piece or head.end() - head.start() <= _MOST_WIDTH):
            return None
        self._is_packed = True
        return head.span()
