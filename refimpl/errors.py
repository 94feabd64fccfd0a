"""The exceptions users see: each names the place, what was got, what was wanted, the way out."""

from __future__ import annotations

from copy import copy


def counted(n: int, noun: str) -> str:
    """Return a number of things in words, such as ``2 operands``.

    >>> counted(1, "operand"), counted(0, "axis")
    ('1 operand', '0 axes')
    """
    many = f"{noun[:-2]}es" if noun.endswith("is") else f"{noun}s"
    return f"{n} {noun if n == 1 else many}"


def reason(e: OSError | ValueError) -> str:
    """Return what the system says of a file, without its name, or what a decoder says of it."""
    return (e.strerror if isinstance(e, OSError) else "") or str(e)


class DidymaError(Exception):
    """Bad input, or a machine that lacks something; never a bug in Didyma.

    ``code`` is a stable, hyphenated name; ``where`` the place, as the user would recognise it.
    Where that stands in a text, ``file`` and ``line`` say where, and ``shown`` is the line.

    >>> raise DidymaError("shape-mismatch", "%2 = add(%a, %b)", got="[2, 3] and [4]",
    ...                   want="sizes that are equal or 1", help="broadcast one side first")
    Traceback (most recent call last):
    didyma.refimpl.errors.DidymaError: shape-mismatch at `%2 = add(%a, %b)`
      got:  [2, 3] and [4]
      want: sizes that are equal or 1
      help: broadcast one side first
    """

    exit_code = 2

    def __init__(
        self,
        code: str,
        where: str,
        got: str,
        want: str,
        help: str = "",
        file: str = "",
        line: int = 0,
        shown: str = "",
    ) -> None:
        self.code = code
        self.where = where
        self.got = got
        self.want = want
        self.help = help
        self.file = file
        self.line = line
        self.shown = shown
        super().__init__(code, where, got, want, help)

    def __str__(self) -> str:
        lines = [f"{self.code} at `{self.where}`"]
        if self.shown:
            lines.append(f"in:   {self.file}:{self.line}: {self.shown}")
        lines += [f"got:  {self.got}", f"want: {self.want}"]
        if self.help:
            lines.append(f"help: {self.help}")
        # A name may hold half a surrogate pair, which no terminal or file could take.
        return "\n  ".join(lines).encode("utf-8", "backslashreplace").decode()

    def at(self, file: str, line: int, shown: str) -> DidymaError:
        """Return the error with its place in a text."""
        placed = copy(self)
        placed.file, placed.line, placed.shown = file, line, shown
        return placed


class EngineMissing(DidymaError):
    """The engine asked for cannot run on this machine."""

    exit_code = 4
