"""The command line of benchmarks: ``didyma bench count``, ``compare`` and ``gpu``."""

from pathlib import Path
from typing import Annotated

import typer

from didyma.cli_options import Json, Option

app = typer.Typer(no_args_is_help=True)

Workloads = Annotated[
    list[str] | None,
    typer.Option("--workload", help="A workload; may be given more than once (default: all)."),
]
Save = Annotated[
    Path | None, typer.Option(help="Write a record, in the format of pytest-benchmark.")
]


@app.command(short_help="Count exactly what programs do.")
def count(
    workload: Workloads = None, save: Save = None, option: Option = None, json: Json = False
) -> None:
    """Count launches, bytes, accesses, statements, planned memory, registers and spills.

    Each workload runs once on simt, at a small size. The counters are exact: they are the same on
    every machine, and need no GPU.
    """
    from didyma.commands import bench as command

    raise typer.Exit(command.count(workload or (), save, option or (), json))


@app.command(short_help="Compare two records of benchmarks.")
def compare(
    before: Annotated[Path, typer.Argument(help="A record of pytest-benchmark, in JSON.")],
    after: Annotated[Path, typer.Argument(help="A later one.")],
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="NAME:+P%,...",
            help="Exit with 1 if a quantity grew by more, or if a benchmark is missing.",
        ),
    ] = "",
    plot: Annotated[Path | None, typer.Option(help="Write a picture, in .svg.")] = None,
    json: Json = False,
) -> None:
    """Print what grew and what shrank: counters, and times as ratios to a baseline of the same run.

    In limits, `bytes` is all that is read and written, `counters` every counter, and `ratio` the
    least time over that of the baseline of its group.
    """
    from didyma.commands import bench as command

    raise typer.Exit(command.compare(before, after, fail_on, plot, json))


@app.command(short_help="Time kernels on a GPU beside PyTorch and JAX.")
def gpu(
    workload: Workloads = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Another library; may be given more than once (default: all)."),
    ] = None,
    save: Save = None,
    option: Option = None,
    json: Json = False,
) -> None:
    """Judge each workload on the GPU, then time it at its large size beside other libraries.

    Shares are of the bandwidth of a large copy in the same run.
    """
    from didyma.commands import bench as command

    raise typer.Exit(command.on_gpu(workload or (), peer or (), save, option or (), json))
