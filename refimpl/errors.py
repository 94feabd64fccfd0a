"""The exceptions users see: each names the place, what was got, what was wanted, the way out."""

from __future__ import annotations


class DidymaError(Exception):
    """Bad input, or a machine that lacks something; never a bug in Didyma.

    ``code`` is a stable, hyphenated name; ``where`` the place, as the user would recognise it.

    >>> raise DidymaError("shape-mismatch", "%2 = add(%a, %b)", got="[2, 3] and [4]",
    ...                   want="sizes that are equal or 1", help="broadcast one side first")
    Traceback (most recent call last):
    didyma.refimpl.errors.DidymaError: shape-mismatch at `%2 = add(%a, %b)`
      got:  [2, 3] and [4]
      want: sizes that are equal or 1
      help: broadcast one side first
    """

    exit_code = 2

    def __init__(self, code: str, where: str, *, got: str, want: str, help: str = "") -> None:
        self.code = code
        self.where = where
        self.got = got
        self.want = want
        self.help = help
        super().__init__(code, where, got, want, help)

    def __str__(self) -> str:
        lines = [f"{self.code} at `{self.where}`", f"got:  {self.got}", f"want: {self.want}"]
        if self.help:
            lines.append(f"help: {self.help}")
        # A name may hold half a surrogate pair, which no terminal or file could take.
        return "\n  ".join(lines).encode("utf-8", "backslashreplace").decode()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.code, self.where, self.got, self.want, self.help))


class EngineMissing(DidymaError):
    """The engine asked for cannot run on this machine."""

    exit_code = 4


def _rebuild(
    cls: type[DidymaError], code: str, where: str, got: str, want: str, help: str
) -> DidymaError:
    return cls(code, where, got=got, want=want, help=help)
