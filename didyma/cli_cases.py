"""The commands for findings and the corpus.  Heavy imports wait until a command runs."""

from pathlib import Path
from typing import Annotated

import typer

from didyma.cli_options import LONGEST, Dim, Engine, Json, Option, Planner, engines, stdin

corpus = typer.Typer(no_args_is_help=True)

Folder = Annotated[
    Path | None, typer.Option(help="Folder of the corpus (default: that of Didyma itself).")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes (default: one for each core).")]
Timeout = Annotated[
    float, typer.Option(min=0.1, max=LONGEST, help="Seconds until a case counts as hung.")
]


def minimise(
    file: Annotated[
        Path,
        typer.Argument(
            help="A finding, a .dym text or an .onnx model; - is stdin.", callback=stdin
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The case to write (default: FILE's name, .min.dym)."),
    ] = None,
    script: Annotated[
        Path | None, typer.Option(help="Also write a Python script that shows the disagreement.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="How long to look for less.")
    ] = 30.0,
    engine: Engine = None,
    dim: Dim = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the inputs of a program that is no finding.")
    ] = 1,
    planner: Planner = "didyma",
    option: Option = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", metavar="NAME=VALUE", help="A number that fills an input, or FILE.npy."
        ),
    ] = None,
    timeout: Timeout = 600.0,
    json: Json = False,
) -> None:
    """Make a finding, or a program that disagrees, as small as still disagrees in the same way.

    Fewer passes and options, nodes, elements and digits; the smallest so far is always on disk.
    """
    from didyma.commands import minimise as command
    from didyma.commands.common import options

    asked = command.Request(
        file, out, script, engines(engine), seconds, dim or [], seed, options(planner, option),
        timeout, value or [],
    )  # fmt: skip
    raise typer.Exit(command.minimise(asked, json))


def findings(
    files: Annotated[
        list[Path], typer.Argument(help="Findings, or folders of them; of any campaigns.")
    ],
    since: Annotated[
        list[Path] | None,
        typer.Option(help="Earlier findings, or a folder of them: say which groups are new."),
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Judge all again: say which groups no longer fail.")
    ] = False,
    engine: Engine = None,
    jobs: Jobs = None,
    timeout: Timeout = 60.0,
    json: Json = False,
) -> None:
    """Group the findings of several campaigns by cause."""
    from didyma.commands import findings as command

    wanted = engines(engine)
    raise typer.Exit(command.findings(files, since or [], judge, wanted, jobs, timeout, json))


@corpus.command(short_help="Write a case into the corpus.")
def add(
    file: Annotated[Path, typer.Argument(help="A finding, a .dym text or an .onnx model.")],
    why: Annotated[str, typer.Option(help="Why the case is kept.")],
    covers: Annotated[str, typer.Option(help="What it exercises, if nothing was found.")] = "",
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Write a case into the corpus, unless one of its structure and options is there."""
    from didyma.commands import corpus as command

    raise typer.Exit(command.add(file, why, covers, folder, json))


@corpus.command("list", short_help="Print the cases, and why each is there.")
def list_(folder: Folder = None, json: Json = False) -> None:
    """Print the cases of the corpus, and why each is there."""
    from didyma.commands import corpus as command

    raise typer.Exit(command.list_(folder, json))


@corpus.command(short_help="Judge every case again.")
def replay(
    engine: Engine = None,
    jobs: Jobs = None,
    timeout: Timeout = 60.0,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Judge every case of the corpus on every engine given (default: simt and host)."""
    from didyma.commands import corpus as command

    raise typer.Exit(command.replay_all(folder, engines(engine), jobs, timeout, json))


@corpus.command(short_help="Take over the cases of another corpus.")
def merge(
    other: Annotated[Path, typer.Argument(help="The folder of the other corpus.")],
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Write the cases of another corpus into this one, but those that it has: all or none."""
    from didyma.commands import corpus as command

    raise typer.Exit(command.merge(other, folder, json))
