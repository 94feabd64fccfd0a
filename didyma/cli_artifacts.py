"""The command line of artifacts: ``didyma build``, ``didyma run``, ``didyma artifact check``."""

from pathlib import Path
from typing import Annotated

import typer

from didyma.cli_options import Dim, File, Json, Option, Planner, Timeout

artifact = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
Folder = Annotated[Path, typer.Argument(help="A folder that `didyma build` wrote.")]


def build(
    file: File,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("build"),
    target: Annotated[
        str, typer.Option(help="What it is to run on: host, sm_90a, or several with commas.")
    ] = "host",
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            "-e",
            help="Engine that judges what is for the CPU, and whose compiler makes its code:"
            " host (TinyCC) or host-fast (clang, gcc or Zig; the usual one where they are).",
        ),
    ] = None,
    dim: Dim = None,
    bucket: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SHARE|N,N,…",
            help="Sizes that inputs are padded to, or the largest share that may be padding.",
        ),
    ] = None,
    planner: Planner = "didyma",
    option: Option = None,
    seed: Annotated[int, typer.Option(help="Seed of the inputs it is judged on.")] = 1,
    tries: Annotated[
        int | None, typer.Option(help="Rounds of inputs that it is judged on, 1 or more.")
    ] = None,
    timeout: Timeout = 600.0,
    dump: Annotated[Path | None, typer.Option(help="Folder for the texts of all levels.")] = None,
    json: Json = False,
) -> None:
    """Judge a program, and write a folder that runs it where there is no Didyma but NumPy."""
    from didyma.commands import build as command
    from didyma.commands.common import options

    chosen = options(planner, option)
    raise typer.Exit(
        command.build(
            file,
            out,
            target,
            engine,
            dim or [],
            bucket or [],
            chosen,
            seed,
            tries,
            timeout,
            dump,
            json,
        )
    )


def run(
    folder: Folder,
    target: Annotated[
        str,
        typer.Option(help="What to run it on, of what it was built for: host, sm_90a, …"),
    ] = "",
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", metavar="NAME=FILE.npy", help="An input; the others are random."
        ),
    ] = None,
    dim: Dim = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random inputs.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the results, as .npy files.")
    ] = None,
    walk: Annotated[
        bool, typer.Option("--walk", help="Run program.json line by line rather than the module.")
    ] = False,
    finite: Annotated[
        bool, typer.Option("--finite", help="Refuse NaN and infinity in inputs and in results.")
    ] = False,
    synchronous: Annotated[
        bool, typer.Option("--synchronous", help="Wait for each launch, and name one that fails.")
    ] = False,
    dump: Annotated[
        Path | None, typer.Option(help="Folder for the results of each launch, as .npy files.")
    ] = None,
    json: Json = False,
) -> None:
    """Check a built program and run it."""
    from didyma.commands import artifact as command

    raise typer.Exit(
        command.run(
            folder, target, value or (), dim or (), seed, out, walk, finite, synchronous, dump, json
        )
    )


@artifact.command()
def check(folder: Folder, json: Json = False) -> None:
    """Check that each byte of a built program is as it was written; nothing of it is run."""
    from didyma.commands import artifact as command

    raise typer.Exit(command.check(folder, json))
