"""The command line of schedules and choices: ``didyma tune``, ``didyma schedule``."""

from pathlib import Path
from typing import Annotated

import typer

from didyma.cli_options import LONGEST, Dim, Json, Option, complete, stdin


def tune(
    file: Annotated[
        Path | None,
        typer.Argument(help="A .dym text or an .onnx model; - is stdin.", callback=stdin),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", "-e", help="Engine to measure on.", autocompletion=complete("engines")
        ),
    ] = "host",
    dim: Dim = None,
    option: Option = None,
    seconds: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Longest for one function.")
    ] = 30.0,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, max=LONGEST, help="Seconds after which a candidate counts as hung."),
    ] = 30.0,
    rest: Annotated[
        float,
        typer.Option(
            min=0,
            max=LONGEST,
            help="Seconds of rest before each sample: a GPU is timed in a burst, not a load.",
        ),
    ] = 0.0,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that judge candidates (default: one for each core)."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="File of the picks (default: in the user's cache folder).")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write the file's picks, or all of them, as JSON.")
    ] = None,
    imports: Annotated[
        Path | None, typer.Option("--import", help="Read picks that --export wrote.")
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete all picks, or a cache that cannot be read.")
    ] = False,
    json: Json = False,
) -> None:
    """Judge and time the schedules of a program's functions, and keep the fastest right ones.

    The picks stand in a file that later compiles read with `choose="cached"`.
    """
    from didyma.commands import tune as command

    wanted = command.Wanted(
        file, engine, dim or (), option or (), seconds, timeout, rest, jobs, cache, export,
        imports, clear, json,
    )  # fmt: skip
    raise typer.Exit(command.tune(wanted))


def schedule(
    file: Annotated[
        Path,
        typer.Argument(help="A .dym text of a loop function; - is stdin.", callback=stdin),
    ],
    steps: Annotated[
        Path | None, typer.Option("--schedule", help="The schedule, in .dys (default: no steps).")
    ] = None,
    target: Annotated[
        str, typer.Option(help="Target that the steps may rely on, by name.")
    ] = "portable",
    check: Annotated[
        bool, typer.Option("--check", help="Judge the result, on simt and host.")
    ] = False,
    json: Json = False,
) -> None:
    """Print a loop function, and each step of a schedule with the function after it."""
    from didyma.commands import schedule as command

    raise typer.Exit(command.schedule(file, steps, target, json, check=check))
