"""Where the parts of a text of C++ begin and end, and where its names are known."""

from __future__ import annotations

import re

# Comments, literals and directives, which have no parts.
_OPAQUE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_CLOSES = {c: o for o, c in _PAIRS.items()}
_HEAD = re.compile(r"\b(for|if|while|switch)\s*$")
_NO_TYPES = frozenset(("return", "else", "case", "goto", "new", "delete", "typename", "struct"))
_DECLARED = re.compile(
    r"\b([A-Za-z_][\w:]*(?:<[^;(){}]*>)?)(?:\s*[*&]+\s*(?:__restrict__\s+)?|\s+)"
    r"([A-Za-z_]\w*)(?=\s*(?:[=;,)\[]|:[^:]))(?=((?:[^;(){}]|\([^()]*\))*))"
)
_FURTHER = re.compile(r",\s*[*&]?\s*([A-Za-z_]\w*)(?=\s*(?:[=,\[]|$))")


class Parts:
    """A text of which ``plain`` has spaces for what is opaque; ``mate`` pairs its brackets.

    >>> p = Parts("f(a, g[b + 1]); // (")
    >>> p.plain[p.left(9) : p.right(9)], p.opener(9), p.mate[1]
    ('b + 1', 6, 13)
    """

    def __init__(self, text: str) -> None:
        self.plain = _OPAQUE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
        self.mate: dict[int, int] = {}
        stack: list[int] = []
        for k, c in enumerate(self.plain):
            if c in _PAIRS:
                stack.append(k)
            elif c in _CLOSES and stack and self.plain[stack[-1]] == _CLOSES[c]:
                o = stack.pop()
                self.mate[o], self.mate[k] = k, o
        self._scopes: dict[str, list[tuple[int, int]]] = {}
        for m in _DECLARED.finditer(self.plain):
            for name in (m[2], *_FURTHER.findall(m[3])) if m[1] not in _NO_TYPES else ():
                self._scopes.setdefault(name, []).append(self._scope(m.start(2)))

    def left(self, at: int) -> int:
        """Return where the part begins in which a place is: after a bracket, a comma or ``=``."""
        k = at - 1
        while k >= 0:
            c = self.plain[k]
            if c in _CLOSES:
                if c == "}" and self.plain[k + 1 :].lstrip()[:1] not in (*",;", *_CLOSES):
                    return k + 1  # of a block, and no value in braces
                k = self.mate.get(k, 0) - 1
                continue
            if c in _PAIRS or c in ",;" or (c == "=" and self._assigns(k)):
                return k + 1
            k -= 1
        return 0

    def right(self, at: int) -> int:
        """Return where the part ends in which a place is."""
        k = at
        while k < len(self.plain) and self.plain[k] not in ")]},;{":
            k = self.mate.get(k, len(self.plain)) + 1 if self.plain[k] in _PAIRS else k + 1
        return min(k, len(self.plain))

    def statement(self, at: int) -> int:
        """Return where the statement begins in which a place is."""
        k = at
        while k > 0 and self.plain[k - 1] not in ";{}":
            k = self.mate.get(k - 1, 0) if self.plain[k - 1] in ")]" else k - 1
        return k

    def opener(self, at: int) -> int:
        """Return the bracket in which a place is; -1 if it is in none."""
        k = at - 1
        while k >= 0:
            c = self.plain[k]
            if c in _PAIRS:
                return k if k in self.mate else -1
            k = self.mate.get(k, 0) - 1 if c in _CLOSES else k - 1
        return -1

    def head(self, bracket: int) -> str:
        """Return the word, such as ``for``, whose head a bracket opens; empty for another."""
        m = _HEAD.search(self.plain, max(0, bracket - 16), bracket)
        return m[1] if m else ""

    def visible(self, name: str, at: int) -> bool:
        """Return whether a name is known at a place, as what has no declaration here may be.

        >>> p = Parts("void f(int n) { if (n) { int k = 3; } g(n); }")
        >>> p.visible("k", 40), p.visible("n", 40), p.visible("g", 40)
        (False, True, True)
        """
        places = self._scopes.get(name)
        return places is None or any(a < at < b for a, b in places)

    def _assigns(self, k: int) -> bool:
        return self.plain[k - 1 : k] not in (*"=<>!",) and self.plain[k + 1 : k + 2] != "="

    def _scope(self, at: int) -> tuple[int, int]:
        """Return where what is declared at a place is known."""
        o = self.opener(at)
        if o < 0:
            return at, len(self.plain)
        end = self.mate[o]
        if self.plain[o] != "(":
            return at, end
        if self.head(o) and self.plain[end + 1 :].lstrip()[:1] != "{":
            return at, self.plain.find(";", end)
        return at, self.mate.get(self.plain.find("{", end), len(self.plain))


def balanced(text: str) -> bool:
    """Return whether each bracket of a text is closed.

    >>> balanced("f(a[0])"), balanced("a) + (b")
    (True, False)
    """
    depth: list[str] = []
    for c in text:
        if c in _PAIRS:
            depth.append(_PAIRS[c])
        elif c in _CLOSES and (not depth or depth.pop() != c):
            return False
    return not depth
