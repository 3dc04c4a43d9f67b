"""Generated YAML: documents as untidy people write them, for the properties of reading and formatting."""

from __future__ import annotations

from hypothesis import strategies as st

KEYS = ["a", "b", "c", "step", "tool", "kind", "spec", "name", "next", "workflow", "metadata", '"x y"', "'q'", "é"]
PLAIN = ["x", "1", "true", "null", "~", "0.5", "on", "a b", "http://h/p#f", "a:b", "-x", "012", "é😀", "x, y"]
QUOTED = ['"{{ a }}"', "'it''s'", '"a\\nb"', '" # no comment "', "''", '"a: b"', "'[x]'"]
FLOW_PLAIN = ["x", "1", "true", "a b", "é", '"{{ a }}"', "'y'", '"a, b"']
COMMENTS = ["# c", "#c", "# one: two", "#", "# - x", "# 'q"]
LINES = ["text", "  deeper", "", "# not a comment", "a: b", "tail  ", "\ttab", "- x"]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A block mapping with comments, blank lines and any indentation."""
    writer = _Writer(draw)
    writer.trivia(0)
    if draw(st.integers(0, 9)) == 0:
        writer.lines.append("---")
    column = draw(st.sampled_from([0, 0, 0, 2]))
    writer.mapping(column, 0)
    writer.trivia(column)
    text = "\n".join(writer.lines) + draw(st.sampled_from(["\n", "", "\n\n"]))
    return text.replace("\n", "\r\n") if draw(st.integers(0, 9)) == 0 else text


class _Writer:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.anchors: list[str] = []
        self.named = 0

    def one_in(self, many: int) -> bool:
        return self.draw(st.integers(1, many)) == many  # so that the simplest answer is no

    def trivia(self, column: int) -> None:
        while self.one_in(5):
            if self.one_in(2):
                self.lines.append(" " * self.draw(st.integers(0, 3)) if self.one_in(3) else "")
            else:
                indent = column if self.one_in(2) else self.draw(st.integers(0, column + 4))
                self.lines.append(" " * indent + self.draw(st.sampled_from(COMMENTS)))

    def trailing(self) -> str:
        return " " * self.draw(st.integers(1, 3)) + self.draw(st.sampled_from(COMMENTS)) if self.one_in(5) else ""

    def mapping(self, column: int, depth: int, first: str | None = None) -> None:
        """Entries in `column`; the first continues the line `first`, if there is one."""
        keys = self.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True))
        for index, key in enumerate(keys):
            head = first if first is not None and index == 0 else None
            if head is None:
                self.trivia(column)
                head = " " * column
            self.value(head + key + ":", column, depth, indentless=True)

    def sequence(self, column: int, depth: int, first: str | None = None) -> None:
        for index in range(self.draw(st.integers(1, 3))):
            head = first if first is not None and index == 0 else None
            if head is None:
                self.trivia(column)
                head = " " * column
            self.value(head + "-", column, depth, indentless=False)

    def value(self, head: str, column: int, depth: int, *, indentless: bool) -> None:
        kind = self.draw(st.integers(0, 11 if depth < 4 else 6))
        if kind == 0:
            self.lines.append(head + self.trailing())
        elif kind in (1, 2):
            self.scalar(head, column)
        elif kind in (3, 4):
            self.lines.append(head + self.anchor() + " " + self.flow(2) + self.trailing())
        elif kind == 5:
            self.block_text(head, column)
        elif kind == 6:
            self.long(head, column)
        else:
            self.collection(head, column, depth + 1, indentless=indentless)

    def anchor(self) -> str:
        if not self.one_in(12):
            return ""
        self.named += 1
        self.anchors.append(f"n{self.named}")
        return " &" + self.anchors[-1]

    def scalar(self, head: str, column: int) -> None:
        if self.anchors and self.one_in(3):
            self.lines.append(f"{head} *{self.draw(st.sampled_from(self.anchors))}" + self.trailing())
            return
        text = self.draw(st.sampled_from(PLAIN + QUOTED))
        if self.one_in(8):
            self.lines.append(head + self.trailing())
            self.trivia(column)
            self.lines.append(" " * (column + 3) + text + self.trailing())
        else:
            self.lines.append(head + self.anchor() + " " * self.draw(st.integers(1, 3)) + text + self.trailing())

    def flow(self, depth: int) -> str:
        gap = self.draw(st.sampled_from(["", " ", "  "]))
        if depth == 0 or self.one_in(3):
            return self.draw(st.sampled_from(FLOW_PLAIN))
        items = [self.flow(depth - 1) for _ in range(self.draw(st.integers(0, 3)))]
        if self.one_in(2):
            return "[" + gap + ("," + gap).join(items) + gap + "]"
        return "{" + gap + ", ".join(f"k{index}: {item}" for index, item in enumerate(items)) + gap + "}"

    def block_text(self, head: str, column: int) -> None:
        indent = self.draw(st.integers(1, 4))
        hint = str(indent) if self.one_in(3) else ""
        chomping = self.draw(st.sampled_from(["", "-", "+"]))
        self.lines.append(f"{head}{self.anchor()} {self.draw(st.sampled_from('|>'))}{hint}{chomping}{self.trailing()}")
        lines = self.draw(st.lists(st.sampled_from(LINES), max_size=4))
        while not hint and lines and (not lines[0] or lines[0][0] in " \t"):
            lines.pop(0)
        self.lines += [" " * (column + indent) + line if line else "" for line in lines]

    def long(self, head: str, column: int) -> None:
        """Scalars and flow collections over several lines."""
        indent = "\n" + " " * (column + self.draw(st.integers(1, 5)))
        kind = self.draw(st.integers(0, 3))
        gap = self.trailing() if self.one_in(2) else ""
        text = {
            0: f"one{indent}two{indent}",
            1: f'"one  {indent}two\\{indent} three"',
            2: f"[1,{gap}{indent}{{a: b}},{indent}]",
            3: f"{{ a: 1,{gap}{indent}b: 'x{indent}y' }}",
        }[kind]
        self.lines += (head + " " + text.rstrip() + self.trailing()).split("\n")

    def collection(self, head: str, column: int, depth: int, *, indentless: bool) -> None:
        write = self.mapping if self.one_in(2) else self.sequence
        if not indentless and self.one_in(2):
            write(len(head) + 1, depth, head + " ")
            return
        before = list(self.anchors)
        self.lines.append(head + self.anchor() + self.trailing())
        self.anchors = before  # an alias is not allowed inside the value it repeats
        below = column if indentless and write == self.sequence and self.one_in(2) else column + 2
        write(below if below == column else below + self.draw(st.integers(-1, 2)), depth)
