"""The command line of kernels that others wrote: ``didyma sanitize``."""

from pathlib import Path
from typing import Annotated

import typer

from didyma.cli_options import Json


def sanitize(
    file: Annotated[Path, typer.Argument(help="A .cu file of CUDA C++, or a .ptx file.")],
    kernel: Annotated[
        str,
        typer.Option(
            help="The kernel by name, or an instance of a template (default: the only kernel)."
        ),
    ] = "",
    grid: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Blocks.")] = "1",
    block: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Threads of a block.")] = "32",
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An argument, in order: f32[1000] drawn, i32[9]:0..4 drawn from a range, "
            "out:f32[1] unwritten, zero:f32[1], i32:1000 a number, FILE.npy or out:FILE.npy.",
        ),
    ] = None,
    shared: Annotated[int, typer.Option(min=0, help="Bytes of dynamic shared memory.")] = 0,
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", help="A macro, such as TILE=16.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("--include", "-I", help="A folder of headers.")
    ] = None,
    schedules: Annotated[int, typer.Option(min=0, help="Orders of warps to run.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the values that are drawn.")] = 1,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Processor time after which a launch counts as hung.")
    ] = 60.0,
    json: Json = False,
) -> None:
    """Run a CUDA kernel without a GPU and find its faults of memory and synchronisation.

    It says where a kernel reads or writes out of bounds, reads what nothing wrote, races, diverges
    at a barrier, hangs, or leaves an output unwritten.
    """
    from didyma.commands import sanitize as command

    asked = command.Request(
        file, kernel, grid, block, tuple(arg or ()), shared, tuple(define or ()),
        tuple(include or ()), schedules, seed, seconds,
    )  # fmt: skip
    raise typer.Exit(command.sanitize(asked, json))
