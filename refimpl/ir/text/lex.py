"""Cuts text into words and says where a mistake is."""

from __future__ import annotations

import json
import re

from didyma.refimpl.errors import DidymaError

MAX_DEPTH = 128  # of nesting in a text; the parser takes up to 5 Python frames for a level
MAX_DIGITS = 39  # of an integer

_STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_TOKEN = re.compile(
    rf"""
     (?P<skip>[ \t\r\n]+ | \#[^\n]*)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)
    |(?P<value>(?<![A-Za-z0-9_)\]])%(?:{_STRING}|[A-Za-z0-9_.]+))
    |(?P<global>@(?:{_STRING}|[A-Za-z0-9_.]+(?::[0-9]+)?))
    |(?P<string>{_STRING})
    |(?P<hex>0x[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?p[+-]?[0-9]+)
    |(?P<float>[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))
    |(?P<int>[0-9]+)
    |(?P<mark>->|\+:|\*\*|//|==|!=|<=|>=|<<|>>|[-+*/%<>=(){{}}\[\],:])
    """,
    re.VERBOSE,
)
_CLIP = 100  # characters of a line shown in a message


class Lexer:
    """The words of a text and a place among them.

    Words of kind ``skip`` (blanks, and comments from ``#`` to the end of the line) are dropped;
    the last word has kind ``end``.
    """

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.text = text
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.starts: list[int] = []
        self.i: int = 0
        self.depth: int = 0
        at = 0
        for m in _TOKEN.finditer(text):
            if m.start() != at:
                break
            at = m.end()
            kind = m.lastgroup
            if kind != "skip" and kind is not None:
                self.kinds.append(kind)
                self.words.append(m.group())
                self.starts.append(m.start())
        self.kinds.append("end")
        self.words.append("")
        self.starts.append(at)
        if at != len(text):
            self.i = len(self.words) - 1
            raise self.error("a word of the language", got=repr(text[at]))

    @property
    def kind(self) -> str:
        """The kind of the next word."""
        return self.kinds[self.i]

    @property
    def word(self) -> str:
        """The next word; empty at the end.  Strings and names keep their quotes and signs."""
        return self.words[self.i]

    def error(self, want: str, got: str = "", at: int | None = None) -> DidymaError:
        """Make the error ``parse`` at word ``at`` (the next one), showing its line."""
        i = self.i if at is None else at
        start, word = self.starts[i], self.words[i]
        begin = self.text.rfind("\n", 0, start) + 1
        end = self.text.find("\n", start)
        line = self.text[begin : len(self.text) if end < 0 else end]
        row, col = self.text.count("\n", 0, start) + 1, start - begin
        cut = max(0, col - _CLIP // 2)
        shown = "".join(c if c.isprintable() else " " for c in line[cut : cut + _CLIP])
        length = max(1, min(len(word), _CLIP - (col - cut)))
        caret = " " * (col - cut) + "^" * length
        got = got or (f"`{word[:_CLIP]}`" if word else "the end of the text")
        return DidymaError(
            "parse",
            f"{self.source}:{row}:{col + 1}",
            got=f"{got}\n    {shown}\n    {caret}",
            want=want,
            file=self.source,
            line=row,
        )

    def next(self) -> str:
        """Take the next word."""
        word = self.words[self.i]
        if self.i < len(self.words) - 1:
            self.i += 1
        return word

    def at(self, word: str) -> bool:
        """Return whether the next word is this mark or keyword."""
        return self.words[self.i] == word

    def accept(self, word: str) -> bool:
        """Take the next word if it is this mark or keyword."""
        if self.words[self.i] == word:
            self.i += 1
            return True
        return False

    def expect(self, word: str) -> None:
        """Take this mark or keyword, or fail."""
        if self.words[self.i] != word:
            raise self.error(f"`{word}`")
        self.i += 1

    def end(self) -> None:
        """Take no more: fail if any word is left."""
        if self.kind != "end":
            raise self.error("the end of the text")

    def enter(self) -> None:
        """Go one level down; fail beyond ``MAX_DEPTH``."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"at most {MAX_DEPTH} levels", got="deeper nesting")

    def string(self, what: str = 'a string in "quotes"') -> str:
        """Take a string; say that ``what`` was wanted where there is none."""
        if self.kind != "string":
            raise self.error(what)
        return self.unquote(self.next())

    def unquote(self, word: str) -> str:
        """Return the text between the quotes of the word just taken."""
        if "\\" not in word and word.isprintable():
            return word[1:-1]
        try:
            return str(json.loads(word))
        except ValueError as e:
            raise self.error("a string with JSON's escapes", got=str(e), at=self.i - 1) from e

    def _signed(self, kind: str, what: str) -> str:
        if self.kind != kind:
            raise self.error(what)
        word = self.next()
        return self.unquote(word[1:]) if word[1] == '"' else word[1:]

    def value(self) -> str:
        """Take the name of a value: ``%x``."""
        return self._signed("value", "a value such as %x")

    def function(self) -> str:
        """Take the name of a function: ``@f``."""
        return self._signed("global", "a function such as @f")

    def device(self) -> str:
        """Take a device: ``@cuda:1``."""
        return self._signed("global", "a device such as @cuda:1")

    def name(self, what: str) -> str:
        """Take a bare name, or a quoted one such as ``%"a b"``."""
        if self.kind == "name":
            return self.next()
        return self._signed("value", what)

    def label(self, what: str) -> str:
        """Take a bare name or a string."""
        return self.next() if self.kind == "name" else self.string(what)

    def integer(self, what: str = "an integer") -> int:
        """Take an integer, which may have a minus."""
        minus = self.accept("-")
        if self.kind != "int":
            raise self.error(what)
        if len(self.word) > MAX_DIGITS:
            raise self.error(f"at most {MAX_DIGITS} digits", got=f"{len(self.word)} digits")
        value = int(self.next())
        return -value if minus else value
