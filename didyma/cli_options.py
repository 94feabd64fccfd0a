"""Options and arguments that several commands take.  Imports are light, so that help is instant."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from didyma.commands.common import Engines


def complete(kind: str) -> Callable[[str], list[str]]:
    """Return what completes names of a kind of words."""

    def matching(incomplete: str) -> list[str]:
        from didyma.words import words

        return [w for w in words(kind) if w.startswith(incomplete)]

    return matching


def stdin(ctx: typer.Context, file: str | Path) -> str | Path:
    """Keep stdin in a file whose suffix tells its format, where the argument is ``-``."""
    if str(file) != "-" or ctx.resilient_parsing:
        return file
    from didyma.files import keep_stdin

    kept = keep_stdin(Path(ctx.with_resource(tempfile.TemporaryDirectory(prefix="didyma-"))))
    return str(kept) if isinstance(file, str) else kept


LONGEST = 31_536_000.0  # seconds that an option may ask for: a year
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Engine = Annotated[
    list[str] | None,
    typer.Option(
        "--engine",
        "-e",
        help="Engine to judge; may be given more than once.",
        autocompletion=complete("engines"),
    ),
]
Planner = Annotated[
    str, typer.Option(help="Memory planner, by name.", autocompletion=complete("planners"))
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="PATH=VALUE",
        help="A choice of the compiler, e.g. kernels.block=64; may be given more than once.",
        autocompletion=complete("options"),
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        min=0.1, max=LONGEST, help="Seconds without a launch until a level counts as hung."
    ),
]
Dim = Annotated[
    list[str] | None,
    typer.Option("--dim", "-d", metavar="NAME=N", help="Bind a symbolic size, e.g. batch=4."),
]
File = Annotated[
    Path, typer.Argument(help="A .dym text or an .onnx model; - is stdin.", callback=stdin)
]


def engines(given: list[str] | None) -> Engines:
    """Return engines as commands take them; None where the user gave none."""
    return tuple(given) if given else None
