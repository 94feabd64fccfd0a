"""The command line.  Heavy imports wait until a command runs, so that help is instant."""

from __future__ import annotations

import json as json_
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from didyma import __version__
from didyma.refimpl.errors import DidymaError

if TYPE_CHECKING:
    from didyma.commands.common import Engines

app = typer.Typer(
    help="A tensor compiler that can be trusted, and the oracle that makes it so.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Engine = Annotated[
    list[str] | None,
    typer.Option("--engine", "-e", help="Engine to judge; may be given more than once."),
]
Planner = Annotated[str, typer.Option(help="Memory planner, by name.")]
Dim = Annotated[
    list[str] | None,
    typer.Option("--dim", "-d", metavar="NAME=N", help="Bind a symbolic size, e.g. batch=4."),
]
File = Annotated[Path, typer.Argument(help="A .dym text or an .onnx model.")]


def _engines(given: list[str] | None) -> Engines:
    return tuple(given) if given else None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"didyma {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version


@app.command()
def fuzz(
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to judge graphs.")] = 60.0,
    engine: Engine = None,
    seed: Annotated[int, typer.Option(help="First seed; the same seed gives the same graphs.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as there are cores without.")
    ] = None,
    planner: Planner = "didyma",
    findings: Annotated[Path, typer.Option(help="Folder for findings.")] = Path("findings"),
    stop_after: Annotated[
        int, typer.Option(min=0, help="End after so many findings; 0: never.")
    ] = 0,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds until one graph counts as hung.")
    ] = 30.0,
    memory: Annotated[
        bool,
        typer.Option("--memory", help="Judge plans of random programs and arenas instead."),
    ] = False,
    json: Json = False,
) -> None:
    """Judge random graphs at every level and on every engine given (default: simt and host)."""
    chosen = _engines(engine)
    if memory:
        from didyma.commands import fuzz_memory

        raise typer.Exit(fuzz_memory.fuzz(seconds, chosen, seed, jobs, stop_after, json))
    from didyma.commands import fuzz as command

    raise typer.Exit(
        command.fuzz(seconds, chosen, seed, jobs, planner, findings, stop_after, timeout, json)
    )


@app.command()
def check(
    file: File,
    engine: Engine = None,
    dim: Dim = None,
    seed: Annotated[int, typer.Option(help="Seed of the input values.")] = 1,
    planner: Planner = "didyma",
    timeout: Annotated[float, typer.Option(help="Seconds until a level counts as hung.")] = 600.0,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Another implementation to judge on the same inputs: onnxruntime."),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="NAME=VALUE",
            help="A number that fills an input, or FILE.npy; the others are random.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write what was judged there, for `didyma replay`.")
    ] = None,
    json: Json = False,
) -> None:
    """Judge a program at every level on random inputs (default engine: host)."""
    from didyma.commands import check as command

    engines, peers, values = _engines(engine), tuple(peer or ()), value or ()
    raise typer.Exit(
        command.check(file, engines, dim or [], seed, planner, timeout, json, peers, values, save)
    )


@app.command()
def export(
    file: File,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model to write.")] = Path(
        "model.onnx"
    ),
    dim: Dim = None,
    json: Json = False,
) -> None:
    """Write a program as an ONNX model; symbolic sizes stay symbolic."""
    from didyma.commands import export as command

    raise typer.Exit(command.export(file, out, dim or [], json))


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A finding written by `didyma fuzz`.")],
    engine: Engine = None,
    timeout: Annotated[float, typer.Option(help="Seconds until a level counts as hung.")] = 600.0,
    json: Json = False,
) -> None:
    """Judge a finding again, with its own inputs, engines and options."""
    from didyma.commands import replay as command

    raise typer.Exit(command.replay(file, _engines(engine), timeout, json))


@app.command()
def explain(
    file: File,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the texts.")] = Path(
        "explain"
    ),
    planner: Planner = "didyma",
    json: Json = False,
) -> None:
    """Write the text of every level of a program: graph, passes, loops, kernels, CUDA C, Python."""
    from didyma.commands import explain as command

    raise typer.Exit(command.explain(file, out, planner, json))


@app.command()
def plan(
    file: Annotated[
        Path,
        typer.Argument(help="A trace (.csv: id,lower,upper,size), a .dym text or an .onnx model."),
    ],
    planner: Annotated[str, typer.Option(help="A memory planner by name, or all.")] = "didyma",
    capacity: Annotated[
        int | None, typer.Option(min=0, help="Bytes that the arena may have.")
    ] = None,
    dim: Dim = None,
    seconds: Annotated[float, typer.Option(min=0, help="Longest that a planner searches.")] = 50.0,
    plot: Annotated[
        Path | None, typer.Option(help="Write the best plan as a picture (.svg).")
    ] = None,
    json: Json = False,
) -> None:
    """Place a program's or a trace's buffers in one arena; compare planners."""
    from didyma.commands import plan as command

    raise typer.Exit(command.plan(file, planner, capacity, dim or [], seconds, plot, json))


@app.command()
def ops(
    name: Annotated[str | None, typer.Argument(help="One op; all of them without.")] = None,
    json: Json = False,
) -> None:
    """Show the ops: what each means, its types, attributes and rules for special values."""
    from didyma.commands import ops as command

    raise typer.Exit(command.ops(name, json))


@app.command()
def doctor(json: Json = False) -> None:
    """Say which engines can run here, and how to mend those that cannot."""
    from didyma.commands import doctor as command

    raise typer.Exit(command.doctor(json))


def _leave(number: int, frame: object) -> None:
    del frame
    sys.exit(128 + number)  # by way of every `finally`, so that no child stays behind


def main() -> None:
    """Run the command line; exit codes: 0 agree, 1 disagreement, 2 bad input, 3 internal,
    4 engine missing, 5 nothing ran.
    """
    signal.signal(signal.SIGTERM, _leave)
    try:
        app()
    except DidymaError as e:
        _tell(e)
        sys.exit(e.exit_code)
    except Exception:
        traceback.print_exc()
        print("didyma: this is a bug in didyma, not in your input", file=sys.stderr)
        sys.exit(3)


def _tell(e: DidymaError) -> None:
    print(f"didyma: {e}", file=sys.stderr)
    for note in getattr(e, "__notes__", ()):
        print(f"  {note}", file=sys.stderr)
    if "--json" in sys.argv:
        fields = {"code": e.code, "where": e.where, "got": e.got, "want": e.want, "help": e.help}
        print(json_.dumps({"error": fields}, indent=2))
