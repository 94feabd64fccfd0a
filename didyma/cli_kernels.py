"""The command line of kernels that others wrote: ``didyma sanitize`` and ``didyma judge``."""

from pathlib import Path
from typing import Annotated

import typer

from didyma.cli_options import LONGEST, Json, stdin


def sanitize(
    file: Annotated[
        Path,
        typer.Argument(help="A .cu file of CUDA C++, or a .ptx file; - is stdin.", callback=stdin),
    ],
    kernel: Annotated[
        str,
        typer.Option(
            help="The kernel by name, or an instance of a template (default: each of the file)."
        ),
    ] = "",
    grid: Annotated[
        str, typer.Option(metavar="X[,Y[,Z]]", help="Blocks (default: 2 along each axis in use).")
    ] = "",
    block: Annotated[
        str,
        typer.Option(
            metavar="X[,Y[,Z]]",
            help="Threads of a block (default: as the kernel's launch bounds, or 128).",
        ),
    ] = "",
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An argument, in order: f32[1000] drawn, i32[9]:0..4 drawn from a range, "
            "out:f32[1] unwritten, zero:f32[1], i32:1000 a number, FILE.npy or out:FILE.npy, "
            "{n=i32:9,x=f32[9]} a structure, map(f32[64,64], box=8x32) a tensor map (default: "
            "guessed).",
        ),
    ] = None,
    shared: Annotated[
        int | None,
        typer.Option(min=0, help="Bytes of dynamic shared memory (default: guessed)."),
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", help="A macro, such as TILE=16.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("--include", "-I", help="A folder of headers.")
    ] = None,
    schedules: Annotated[int, typer.Option(min=1, help="Orders of warps to run.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the values that are drawn.")] = 1,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1, max=LONGEST, help="Seconds on the processor until a launch counts as hung."
        ),
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
        tuple(include or ()), schedules, seed, timeout,
    )  # fmt: skip
    raise typer.Exit(command.sanitize(asked, json))


def judge(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A .cu file of CUDA C++, a .ptx file (- is stdin), or a description in .toml.",
            callback=stdin,
        ),
    ] = None,
    spec: Annotated[
        str,
        typer.Option(help="What it should compute: FILE.dym, FILE.onnx or FILE.py::NAME."),
    ] = "",
    kernel: Annotated[
        str,
        typer.Option(
            help="The kernel by name, or an instance of a template (default: the only kernel)."
        ),
    ] = "",
    grid: Annotated[
        str, typer.Option(metavar="X[,Y[,Z]]", help="Blocks, as expressions of sizes.")
    ] = "1",
    block: Annotated[
        str, typer.Option(metavar="X[,Y[,Z]]", help="Threads of a block, as expressions of sizes.")
    ] = "32",
    shared: Annotated[
        str,
        typer.Option(
            help="Bytes of dynamic shared memory, as an expression of sizes (default: 48 KiB if "
            "the kernel takes any)."
        ),
    ] = "",
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WHAT",
            help="What a parameter is (default: by name, then by order): an input, an output, "
            "zero or zero:OUTPUT, inplace:INPUT, an expression of sizes, i32:SIZES, f32:0.5 or "
            "scratch:f32[SIZES]; map(ARRAY, box=8x32) a tensor map of an array.",
        ),
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", help="A macro, such as TILE=16.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("--include", "-I", help="A folder of headers.")
    ] = None,
    accumulate: Annotated[
        str, typer.Option(help="The dtype in which it keeps sums: f32, bf16 or f16.")
    ] = "f32",
    order: Annotated[
        str,
        typer.Option(
            help="The order of additions: any, sequential, tree, or the longest chain of a sum of "
            "n terms, such as n/256+8."
        ),
    ] = "any",
    fast_math: Annotated[
        bool,
        typer.Option("--fast-math", help="It uses fast intrinsics, and may lose subnormals."),
    ] = False,
    finite: Annotated[
        bool, typer.Option("--finite", help="It promises nothing for infinities and NaN.")
    ] = False,
    structure: Annotated[
        bool,
        typer.Option("--structure", help="It puts the same terms together as the specification."),
    ] = False,
    multiply: Annotated[
        str,
        typer.Option(
            help="The format of factors of f32 in products of matrices and convolutions: f32, "
            "tf32, bf16 or f16."
        ),
    ] = "f32",
    size: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N[,N]", help="The values that a size is drawn from."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="What holds of sizes, such as n % 4 == 0."),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LOW..HIGH", help="The range of an input's values."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of sizes and values.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed of sizes and values.")] = 1,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=LONGEST,
            help="Seconds of processor time for the rounds. Those that would "
            "likely end later have smaller sizes, or are named as not tried.",
        ),
    ] = 7.0,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1, max=LONGEST, help="Seconds on the processor until a launch counts as hung."
        ),
    ] = 10.0,
    certificate: Annotated[
        Path | None, typer.Option(help="Write a certificate to a file, in .json.")
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="Judge the kernel of a certificate again.")
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Judge nothing; write the specification as a task of others: definition.json for "
            "FlashInfer-Trace, task.yml with reference.py for GPU MODE, another .py file for "
            "KernelBench, which has ModelNew if a kernel is given.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Judge whether a CUDA kernel computes what its specification says, without a GPU.

    It draws sizes and values, runs the kernel with all checks of its memory and synchronisation,
    and compares its results with the error bars of the reference.
    """
    if (file is None and write is None) if check is None else (file or write):
        raise typer.BadParameter("want one of a kernel, --write FILE or --check FILE")
    from didyma.commands import judge_kernel as command
    from didyma.judging.request import Request

    if check is not None:
        raise typer.Exit(command.check(check, json))
    asked = Request(
        str(file or ""), spec, kernel, grid, block, shared, tuple(arg or ()), tuple(define or ()),
        tuple(map(str, include or ())), accumulate, order, fast_math, finite, structure,
        multiply, tuple(size or ()), tuple(where or ()), tuple(values or ()), rounds, seed, seconds,
        timeout,
    )  # fmt: skip
    if write is not None:
        raise typer.Exit(command.write(asked, write, json))
    raise typer.Exit(command.command(asked, certificate, json))
