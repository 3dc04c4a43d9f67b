"""Redaction: secrets replaced by `***` in text and data, by value, on copies (KEY-06, reliability.md §2.6).

One matcher serves all secrets of an execution: it looks for the heads of their forms in one pass and compares the rest
only where a head was found. This module knows neither the origin of the secrets nor the destination of the text.

A secret is masked in every form of `secret_forms.py`, which it takes on its way through programs.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, AnyStr, Generic

import msgspec

from noetl.base.encoded_blocks import (
    LONGEST_HINT,
    EncodedStream,
    Span,
    UnpackBudget,
    encoded_spans,
    json_may_be_encoded,
)
from noetl.base.secret_forms import SHORTEST, dumped_forms, forms_of, json_escaped

MASK = "***"
_LONGEST_WITH_TAIL = 4_096  # characters of a secret whose end is looked for
TELLING = 12  # characters of a secret that was cut off; fewer, and less than half of it, are let through

# the marks that programs write where they truncate a text (PostgreSQL: the columns of a failing row)
_ENDS = ("…", " …", "...", " ...", "\ufffd")
_TEXT_MARKS = re.compile(r"(?:\.\.\.|…) ?")
_JSON_MARKS = re.compile(rb"(?:\.\.\.|\xe2\x80\xa6) ?")
_JSON_ENDS = (b'"', *(end.encode() for end in _ENDS))
_LONGEST_END = max(len(end) for end in _JSON_ENDS)
_PIECE_BYTES = 1 << 20  # of encoded data that is searched at once
_MOST_HELD = 8  # times the longest secret
_LINE_END = re.compile(r"\r?\n|\r")  # a progress bar writes its line anew
MAX_LINE = 4_000  # characters


_KEY_IN_QUERY = re.compile(r"(?i)([?&][^=&#]*(?:pass|pwd|secret|token|key|signature)[^=&#]*=)[^&#]*")
_HOST_ALONE = re.compile(r"[^/?#@]*(?:[/?#][^@]*)?")  # no "@" at all, so nobody's name stands in front of the host


def without_password(address: str) -> str:
    """An address of a store, a broker or a server as its user gave it, fit to be printed. What stands in front of an
    "@" without a colon is a name, of a broker a token."""
    scheme, mark, rest = address.partition("://")
    if not mark:
        return address
    if not _HOST_ALONE.fullmatch(rest):
        # Up to the last "@": a password may hold signs that should have been escaped.
        owner, _, place = rest.rpartition("@")
        user, colon, _ = owner.partition(":")
        rest = f"{user}:{MASK}@{place}" if colon else f"{MASK if scheme == 'nats' else owner}@{place}"
    shown = _KEY_IN_QUERY.sub(rf"\g<1>{MASK}", rest)
    return f"{scheme}://{shown}"


class Tails(Generic[AnyStr]):
    """Finds the ends of secrets behind a mark of truncation: SQLAlchemy and `reprlib` shorten a text in its middle."""

    def __init__(self, secrets: Iterable[AnyStr], marks: re.Pattern[AnyStr]) -> None:
        self._secrets: list[AnyStr] = [secret for secret in secrets if TELLING < len(secret) <= _LONGEST_WITH_TAIL]
        self._marks: re.Pattern[AnyStr] = marks
        # What a tail may begin with: a text has far more marks than tails, and each is looked up once.
        self._begins: frozenset[AnyStr] = frozenset(
            secret[at : at + TELLING] for secret in self._secrets for at in range(len(secret) - TELLING + 1)
        )

    def spans(self, text: AnyStr) -> Iterator[tuple[int, int]]:
        if not self._begins:
            return
        for mark in self._marks.finditer(text):
            start = mark.end()
            begin = text[start : start + TELLING]
            if begin not in self._begins:
                continue
            for secret in self._secrets:
                at = secret.find(begin)
                if at >= 0 and text.startswith(secret[at:], start):
                    yield start, start + len(secret) - at
                    break


class Matcher(Generic[AnyStr]):
    """Finds any of many fixed texts, each at least SHORTEST long, and the ends of some that were shortened."""

    def __init__(self, needles: Iterable[AnyStr], tails: Tails[AnyStr]) -> None:
        self.tails: Tails[AnyStr] = tails
        # By their first SHORTEST characters, the longest first: where one secret begins another, the whole is masked.
        self._by_head: dict[AnyStr, list[AnyStr]] = {}
        self.longest = 0
        for needle in sorted(set(needles), key=len, reverse=True):
            self._by_head.setdefault(needle[:SHORTEST], []).append(needle)
            self.longest = max(self.longest, len(needle))
        self._heads: re.Pattern[AnyStr] = _one_of(sorted(self._by_head))
        # For the end of a chunk, where fewer characters than a head have come.
        self._short: set[AnyStr] = {head[:size] for head in self._by_head for size in range(1, SHORTEST)}

    def open_at(self, text: AnyStr) -> int:
        """Where the end of the text could be the beginning of one of the texts; its length where it could not."""
        for start in range(max(0, len(text) - self.longest + 1), len(text)):
            head = text[start : start + SHORTEST]
            if len(head) < SHORTEST:
                if head in self._short:
                    return start
            elif needles := self._by_head.get(head):
                tail = text[start:]
                if any(len(needle) > len(tail) and needle.startswith(tail) for needle in needles):
                    return start
        return len(text)

    def matches(self, text: AnyStr, ends: tuple[AnyStr, ...]) -> bool:
        """Whether one of them is in the text; with `ends`, also a part of one that was cut."""
        return next(self.spans(text, ends), None) is not None or (
            bool(ends) and next(self.tails.spans(text), None) is not None
        )

    def spans(self, text: AnyStr, ends: tuple[AnyStr, ...] = ()) -> Iterator[tuple[int, int]]:
        """The positions of the texts, the longest one at each place; they may overlap. With `ends`, which may follow
        where somebody has cut a text, the beginnings of those that were cut too."""
        search, by_head = self._heads.search, self._by_head
        head = search(text)
        while head is not None:
            start = head.start()
            needles = by_head[head.group()]
            for needle in needles:
                if text.startswith(needle, start):
                    yield start, start + len(needle)
                    break
            else:
                if ends and (stop := _cut_at(text, start, needles, ends)):
                    yield start, stop
            # From the next character, not from the end of the match: secrets may overlap, and no part of either may
            # show.
            head = search(text, start + 1)


def _cut_at(text: AnyStr, start: int, needles: list[AnyStr], ends: tuple[AnyStr, ...]) -> int:
    """Where one of the needles was cut off that begins at `start`; 0 where none was. Half of it must be there, or
    enough that it is no accident: a text that ends with "postgres" holds no address of a database."""
    for needle in needles:
        found = text[start : start + len(needle)]
        same = next((at for at, pair in enumerate(zip(found, needle, strict=False)) if pair[0] != pair[1]), len(found))
        least = min(TELLING, len(needle) / 2)
        if same >= least and start + same == len(text):
            return start + same
        # The dots of an ellipsis may happen to be the next characters of the secret: its mark can begin before `same`.
        if any(same - back >= least and text.startswith(ends, start + same - back) for back in range(_LONGEST_END)):
            return start + same
    return 0


def _one_of(heads: list[AnyStr]) -> re.Pattern[AnyStr]:
    """A pattern of all heads, their common beginnings shared, so that few of them are tried at each place."""
    texts = [head.decode("latin-1") if isinstance(head, bytes) else head for head in heads]
    source: Any = _tree(texts)
    if isinstance(heads[0], bytes):
        source = source.encode("latin-1")
    pattern: re.Pattern[AnyStr] = re.compile(source)
    return pattern


def _tree(words: list[str]) -> str:
    """A pattern of distinct words of one length."""
    if len(words) == 1:
        return re.escape(words[0])
    below: dict[str, list[str]] = {}
    for word in words:
        below.setdefault(word[:1], []).append(word[1:])
    return "(?:" + "|".join(re.escape(first) + _tree(rest) for first, rest in below.items()) + ")"


class Redactor:
    """Masks a fixed set of secrets. Secrets shorter than SHORTEST are not masked, since they would match ordinary
    text."""

    def __init__(self, secrets: Iterable[str], *, searched: Iterable[str] = (), wholes: Iterable[str] = ()) -> None:
        """`searched` and `wholes` are those of another one, in place of secrets."""
        texts = {text for secret in secrets for text in (secret, secret.strip())}  # headers lose the blanks around
        long_enough = [text for text in texts if len(text) >= SHORTEST]
        forms = {form for text in long_enough for form in forms_of(text)}
        self.forms = tuple(sorted(forms))  # for callers that search data that is not our text: tables
        forms |= {form for text in long_enough for form in dumped_forms(text)} | {*searched}
        self.searched = tuple(sorted(forms))
        self.wholes = tuple(sorted({*long_enough, *wholes}))
        self._text = Matcher(forms, Tails(self.wholes, _TEXT_MARKS)) if forms else None
        # plain data is encoded once and looked through as a whole; only where something is found is it walked
        self._json = (
            Matcher(
                {json_escaped(form).encode() for form in forms},
                Tails([json_escaped(whole).encode() for whole in self.wholes], _JSON_MARKS),
            )
            if forms
            else None
        )

    @property
    def idle(self) -> bool:
        """Whether there is nothing to mask."""
        return self._text is None

    def text(self, text: str) -> str:
        """The text with every secret masked; overlapping ones become one mask."""
        return _masked(text, self._text) if self._text is not None else text

    def data(self, value: Any) -> Any:
        """Plain data with every secret masked, in keys and numbers too. The same object when there is none."""
        if self._text is None or self._json is None or value is None:
            return value
        body = msgspec.json.encode(value)
        if self._json.matches(body, _JSON_ENDS):
            return _masked_data(value, self._text, UnpackBudget(len(body)))
        if not json_may_be_encoded(body):
            return value
        clean = _masked_data(value, self._text, UnpackBudget(len(body)))
        # Most data with such parts has no secret, and callers refuse data by this answer.
        return value if msgspec.json.encode(clean) == body else clean

    def may_be_in(self, body: bytes) -> bool:
        """Whether a secret may stand in encoded data. Piece by piece: a search holds up every other thread."""
        if self._json is None:
            return False
        overlap = self._json.longest + _LONGEST_END + LONGEST_HINT
        view = memoryview(body)
        for start in range(0, len(body), _PIECE_BYTES):
            piece = bytes(view[start : start + _PIECE_BYTES + overlap])
            if self._json.matches(piece, _JSON_ENDS) or json_may_be_encoded(piece):
                return True
        return False

    def stream(self) -> Stream:
        return Stream(self._text)

    def lines(self) -> MaskingOfLines:
        """For text that is shown line by line."""
        return MaskingOfLines(self._text)


_OPEN = Redactor(())


class Mask:
    """The secrets of one execution and its children. It only grows: a renewed secret is still one."""

    def __init__(self) -> None:
        self._texts: frozenset[str] = frozenset()
        self._redactor: Redactor | None = _OPEN

    @property
    def redactor(self) -> Redactor:
        """Made on demand: a task that reads fifty secrets adds them one by one."""
        if self._redactor is None:
            self._redactor = _redactor(self._texts)
        return self._redactor

    def learn(self, texts: Iterable[str]) -> None:
        known = self._texts | frozenset(texts)
        if known != self._texts:
            self._texts, self._redactor = known, None

    def learn_all(self, other: Mask) -> None:
        """Mask what another mask masks, too."""
        self.learn(other._texts)


@lru_cache(maxsize=64)
def _redactor(texts: frozenset[str]) -> Redactor:
    return Redactor(texts)


class Stream:
    """Text that comes in chunks: a possible beginning of a secret is held back until the next chunk."""

    def __init__(self, matcher: Matcher[str] | None) -> None:
        self._matcher = matcher
        self.held = ""

    def feed(self, chunk: str) -> str:
        """The text that may be shown now."""
        if self._matcher is None:
            return chunk
        text = self.held + chunk
        cut = self._matcher.open_at(text)
        for start, stop in _joined_spans(self._matcher.spans(text)):
            if stop <= cut:
                continue
            if len(text) - start > _MOST_HELD * self._matcher.longest:
                # One that repeats itself (aaaaaa) would hold back all that follows: it becomes two masks.
                self.held = text[next(first for first, last in self._matcher.spans(text) if last > cut) :]
                return _masked(text[:start], self._matcher, ()) + MASK
            cut = min(start, cut)
            break
        self.held = text[cut:]
        return _masked(text[:cut], self._matcher, ())

    def end(self) -> str:
        """The rest."""
        held, self.held = self.held, ""
        return _masked(held, self._matcher) if self._matcher is not None else held


class MaskingOfLines:
    """Masks one line after another, also where a secret stands on several."""

    def __init__(self, matcher: Matcher[str] | None) -> None:
        self._matcher = matcher
        self._encoded = EncodedStream(matcher.longest, matcher.spans, matcher.open_at) if matcher is not None else None

    def masked(self, line: str, *, is_piece: bool = False) -> str:
        if self._matcher is None or self._encoded is None:
            return line
        return _masked(line, self._matcher, more=self._encoded.spans(line, is_piece=is_piece))


class MaskedLines:
    """Output that comes in chunks, as lines without the secrets of a mask, those that it learns meanwhile included."""

    def __init__(self, mask: Mask) -> None:
        self._mask, self._redactor = mask, mask.redactor
        self._stream, self._line = self._redactor.stream(), ""
        self._masking = self._redactor.lines()

    def feed(self, chunk: str) -> list[str]:
        """The lines that are complete now. A line without an end is cut at a limit, so that it does not grow
        forever."""
        # A secret was learned meanwhile. The held-back text may be its beginning, so it goes through the new matcher
        # too.
        if (redactor := self._mask.redactor) is not self._redactor:
            chunk = self._stream.held + chunk
            self._redactor, self._stream, self._masking = redactor, redactor.stream(), redactor.lines()
        *lines, self._line = split_lines(self._line + self._stream.feed(chunk))
        # Once more by line: a secret truncated by a program is recognised by the mark behind it.
        shown = [self._masking.masked(line) for line in lines]
        if len(self._line) > MAX_LINE:
            shown.append(self._masking.masked(self._line, is_piece=True))
            self._line = ""
        return [cut_line(line) for line in shown]

    def rest(self) -> list[str]:
        """The line that has no end yet, if there is one. A possible beginning of a secret is omitted."""
        # Also by what was learned since the last chunk.
        return [cut_line(self._mask.redactor.text(self._masking.masked(self._line)))] if self._line else []


def split_lines(text: str) -> list[str]:
    """Lines of output as they are shown while its task runs; the last one has no end yet."""
    return _LINE_END.split(text)


def cut_line(line: str) -> str:
    """A line of output as it is shown while its task runs; it is whole in the log."""
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}… ({len(line) - MAX_LINE} more characters)"


def _joined_spans(spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans in order, those that overlap as one."""
    start, stop = -1, -1
    for first, last in spans:
        if first < stop:
            stop = max(stop, last)
            continue
        if stop > 0:
            yield start, stop
        start, stop = first, last
    if stop > 0:
        yield start, stop


def _masked(
    text: str,
    matcher: Matcher[str],
    ends: tuple[str, ...] = _ENDS,
    *,
    budget: UnpackBudget | None = None,
    more: Iterable[Span] = (),
) -> str:
    """The text without its secrets; `more` are further places to mask."""
    at = 0
    shown: list[str] = []
    spans = matcher.spans(text, ends)
    tails = matcher.tails.spans(text) if ends else ()
    further = [*more, *tails, *encoded_spans(text, matcher.spans, budget or UnpackBudget(len(text)))]
    if further:
        spans = iter(sorted([*spans, *further]))
    for start, stop in _joined_spans(spans):
        shown += (text[at:start], MASK)
        at = stop
    return "".join((*shown, text[at:])) if shown else text


def _masked_data(value: Any, matcher: Matcher[str], budget: UnpackBudget) -> Any:
    match value:
        case str():
            return _masked(value, matcher, budget=budget)
        case dict():
            return {
                _masked(key, matcher, budget=budget): _masked_data(item, matcher, budget) for key, item in value.items()
            }
        case list() | tuple():
            found = _byte_spans(value, matcher)
            return [MASK if at in found else _masked_data(item, matcher, budget) for at, item in enumerate(value)]
        case bool() | None:
            return value
        case int() | float():
            # A PIN or an account number may come back as a number.
            return MASK if matcher.matches(str(value), ()) else value
        case _:
            return value


def _byte_spans(values: Sequence[Any], matcher: Matcher[str]) -> frozenset[int]:
    """The positions of numbers in a list that are the bytes of a secret."""
    if len(values) < SHORTEST or not all(type(value) is int for value in values[:SHORTEST]):
        return frozenset()
    texts = [str(value) if type(value) is int else "" for value in values]
    begins = [0]
    for text in texts:
        begins.append(begins[-1] + len(text) + 1)
    found: set[int] = set()
    for start, stop in matcher.spans(",".join(texts)):
        found.update(range(bisect_right(begins, start) - 1, bisect_left(begins, stop)))
    return frozenset(found)
