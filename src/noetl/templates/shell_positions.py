"""The place of a template in a command, as `sh` reads quotes, comments, substitutions and here-documents.

Values are never written into the command, only names of variables; so what is misjudged here can spoil an argument
but never run one. Positions where the shell would evaluate a variable, or not expand it, are refused.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

_HERE = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|(\\?)([\w.+-]+))")
_BREAKS = " \t\n;|&()<>"
_ENDS_COMMAND = "\n;|&()"


class ShellPosition(StrEnum):
    BARE = "bare"
    DOUBLE = "in double quotes"
    SINGLE = "in single quotes"
    BRACES = "in ${…}"
    HERE = "in a here-document"
    COMMENT = "in a comment"
    ARITHMETIC = "in $((…))"
    QUOTED_HERE = "in a here-document whose delimiter is quoted"
    BACKQUOTES = "in backquotes"


class _Here(msgspec.Struct, frozen=True):
    delimiter: str
    quoted: bool
    tabs: bool


class _Command(msgspec.Struct):
    """The current command: `word` is the current word so far, `first` whether that is the command's name."""

    word: str = ""
    first: bool = True
    dashes: bool = False  # `--` was read: later words are not options
    redirected: bool = False  # the word is the name of a file


class ShellScanner:
    """Reads a command piece by piece and knows where it is."""

    def __init__(self) -> None:
        self._inside: list[ShellPosition | str] = []  # open constructs, innermost last; "(" for $(…) and subshells
        # One for each level of `(…)`, `$(…)` and backquotes: a command inside another has words of its own.
        self._commands = [_Command()]
        # Here-documents whose text begins on the next line, in the order they were announced.
        self._waiting: list[_Here] = []
        # the line of a here-document so far, as its end is a line of its own
        self._line = ""

    @property
    def place(self) -> ShellPosition:
        innermost = self._inside[-1] if self._inside else ShellPosition.BARE
        return (
            innermost
            if isinstance(innermost, ShellPosition)
            else ShellPosition.ARITHMETIC
            if innermost == "(("
            else ShellPosition.BARE
        )

    @property
    def is_quoted(self) -> bool:
        """Whether double quotes, or a here-document, are open around `${…}`."""
        for inside in reversed(self._inside):
            if inside == "(":
                return False
            if inside in (ShellPosition.DOUBLE, ShellPosition.HERE):
                return True
        return False

    @property
    def may_be_option(self) -> bool:
        """Whether a value here begins an argument that its program could take for an option."""
        command = self._commands[-1]
        begins = command.word == "" and self.place in (ShellPosition.BARE, ShellPosition.DOUBLE, ShellPosition.SINGLE)
        return begins and not (command.first or command.dashes or command.redirected)

    def hole(self) -> None:
        """The place of a template."""
        # There is a part of any value: the word has started, so a value after it starts no argument.
        self._commands[-1].word += "\0"
        if self.place in (ShellPosition.HERE, ShellPosition.QUOTED_HERE):
            self._line += "\0"

    def take(self, text: str) -> None:
        """Read the author's own text."""
        at = 0
        while at < len(text):
            at += self._step(text, at)

    def _step(self, text: str, at: int) -> int:
        """Read one sign at `at`; how many characters that took."""
        match self.place:
            case ShellPosition.HERE | ShellPosition.QUOTED_HERE:
                return self._scan_here_document(text[at])
            case ShellPosition.COMMENT:
                return self._close() - 1 if text[at] == "\n" else 1  # the line break is read once more, bare
            case ShellPosition.SINGLE:
                return self._quoted(text[at], "'")
            case ShellPosition.BACKQUOTES:
                return 2 if text[at] == "\\" else self._quoted(text[at], "`")
            case ShellPosition.ARITHMETIC:
                return self._arithmetic(text, at)
            case ShellPosition.DOUBLE:
                return self._expansion(text, at) or self._quoted(text[at], '"')
            case ShellPosition.BRACES:
                return self._expansion(text, at) or self._braces(text[at])
            case _:
                return self._expansion(text, at) or self._bare(text, at)

    def _expansion(self, text: str, at: int) -> int:
        """The text if it means the same bare, in double quotes and in braces; else nothing."""
        if text[at] == "\\":
            self._commands[-1].word += text[at : at + 2]
            return 2
        if text[at] == "`":
            return self._open(ShellPosition.BACKQUOTES)
        for sign, inside in (("$((", "(("), ("$(", "("), ("${", ShellPosition.BRACES)):
            if text.startswith(sign, at):
                self._open(inside)
                return len(sign)
        return 0

    def _bare(self, text: str, at: int) -> int:
        sign, command = text[at], self._commands[-1]
        if sign == "#" and command.word == "":
            return self._open(ShellPosition.COMMENT)
        if sign == "<" and text[at : at + 3] != "<<<" and (here := _HERE.match(text, at)):
            return self._here_document(here)
        if sign in "'\"":
            return self._open(ShellPosition.SINGLE if sign == "'" else ShellPosition.DOUBLE)
        if sign not in _BREAKS:
            command.word += sign
            return 1
        self._end_word(sign)
        if text.startswith("((", at):
            return self._open("((") + 1
        if sign == "(":
            return self._open("(")
        if sign == ")" and self._inside:
            self._close()
        if sign == "\n" and self._waiting:
            self._open(ShellPosition.QUOTED_HERE if self._waiting[0].quoted else ShellPosition.HERE)
        return 1

    def _end_word(self, sign: str) -> None:
        command = self._commands[-1]
        if command.word:
            command.dashes = command.dashes or command.word == "--"
            # `A=1 B=2 program`: assignments come before the name of the command, which is still to come then.
            command.first = command.first and "=" in command.word and not command.redirected
            command.word, command.redirected = "", False
        if sign in "<>":
            command.redirected = True
        elif sign in _ENDS_COMMAND:
            self._commands[-1] = _Command()

    def _quoted(self, sign: str, closing: str) -> int:
        if sign == closing:
            return self._close()
        self._commands[-1].word += sign
        return 1

    def _braces(self, sign: str) -> int:
        if sign == "}":
            return self._close()
        if sign == '"':
            return self._open(ShellPosition.DOUBLE)
        # Within double quotes a single quote in `${…}` is a plain character.
        if sign == "'" and ShellPosition.DOUBLE not in self._inside:
            return self._open(ShellPosition.SINGLE)
        return 1

    def _arithmetic(self, text: str, at: int) -> int:
        if text[at] == "(":
            self._inside.append("((")
            self._commands.append(_Command())
            return 1
        if text[at] == ")":
            self._close()
            outermost = self._inside[-1:] != ["(("]
            return 2 if outermost and text.startswith("))", at) else 1
        return 1

    def _here_document(self, found: re.Match[str]) -> int:
        tabs, single, double, escaped, plain = found.groups()
        delimiter = next(text for text in (single, double, plain) if text is not None)
        self._waiting.append(_Here(delimiter, quoted=plain is None or bool(escaped), tabs=bool(tabs)))
        return found.end() - found.start()

    def _scan_here_document(self, sign: str) -> int:
        """Inside a here-document: it ends with a line that is its delimiter."""
        if sign != "\n":
            self._line += sign
            return 1
        here, line, self._line = self._waiting[0], self._line, ""
        if (line.lstrip("\t") if here.tabs else line) == here.delimiter:
            self._waiting.pop(0)
            self._close()
            if self._waiting:
                self._open(ShellPosition.QUOTED_HERE if self._waiting[0].quoted else ShellPosition.HERE)
        return 1

    def _open(self, inside: ShellPosition | str) -> int:
        self._inside.append(inside)
        if inside not in (ShellPosition.DOUBLE, ShellPosition.SINGLE, ShellPosition.COMMENT):
            self._commands.append(_Command())
        return 1

    def _close(self) -> int:
        inside = self._inside.pop()
        if inside not in (ShellPosition.DOUBLE, ShellPosition.SINGLE, ShellPosition.COMMENT):
            self._commands.pop()
            self._commands[-1].word += "\0"
        return 1
