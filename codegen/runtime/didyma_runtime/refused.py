"""The exception that users of a module see."""

from __future__ import annotations


class Refused(Exception):
    """What a program was given does not fit: the code, the place, what was got and is wanted."""

    def __init__(self, code: str, where: str, got: str, want: str, help: str = "") -> None:
        self.code, self.where, self.got, self.want, self.help = code, where, got, want, help
        super().__init__(code, where, got, want, help)

    def __str__(self) -> str:
        lines = [f"{self.code} at `{self.where}`", f"got:  {self.got}", f"want: {self.want}"]
        return "\n  ".join([*lines, *([f"help: {self.help}"] if self.help else [])])
