"""The command line.  Heavy imports wait until a command runs, so that help is instant.

Annotations are no strings in the files of commands: Typer would evaluate each string twice.
"""

import errno
import io
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from didyma import __version__, cli_artifacts, cli_bench, cli_cases, cli_choices, cli_kernels
from didyma.cli_options import (
    LONGEST,
    Dim,
    Engine,
    File,
    Json,
    Option,
    Planner,
    Timeout,
    complete,
    engines,
    stdin,
)
from didyma.commands.exits import as_given, print_json
from didyma.refimpl.errors import DidymaError

app = typer.Typer(
    help="A tensor compiler that can be trusted, and the oracle that makes it so.",
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _explained(incomplete: str) -> list[str]:
    """Complete files as the shell does, and error codes once a letter is typed."""
    codes = complete("codes")(incomplete) if incomplete else []
    return [*codes, *sorted(map(str, Path().glob(f"{incomplete}*")))]


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


@app.command(short_help="Judge random graphs, expressions and memory plans for a time.")
def fuzz(
    seconds: Annotated[float, typer.Option(min=0.1, max=LONGEST, help="How long to judge.")] = 60.0,
    domain: Annotated[
        list[str] | None,
        typer.Option(
            help="What to judge; may be given more than once (default: every domain).",
            autocompletion=complete("domains"),
        ),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PERCENT",
            help="Share of the time for a domain (default: by what each still finds).",
        ),
    ] = None,
    engine: Engine = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="Repeat the campaign of this seed, with as many jobs (default: a new seed)."
        ),
    ] = None,
    case: Annotated[
        int | None, typer.Option(min=0, help="Judge only this case of a domain and a seed.")
    ] = None,
    wishes: Annotated[
        str | None, typer.Option(help="What the case was asked to have, with --case.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes (default: one for each core).")
    ] = None,
    planner: Planner = "didyma",
    option: Option = None,
    findings: Annotated[Path, typer.Option(help="Folder for findings.")] = Path("findings"),
    stop_after: Annotated[
        int, typer.Option(min=0, help="End after this many groups of findings; 0: never.")
    ] = 0,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=LONGEST, help="Seconds after which a case counts as hung.")
    ] = 30.0,
    memory: Annotated[
        bool, typer.Option("--memory", help="The same as --domain planners.")
    ] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Print what was covered, and what never was.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write what was covered as a page, in .html.")
    ] = None,
    lines: Annotated[
        bool,
        typer.Option(
            "--lines", help="Say which lines of the compiler never ran (Python 3.12 or later)."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Judge random cases of every domain, graphs on every engine given (default: simt and host)."""
    from didyma.commands import fuzz as command
    from didyma.commands.common import options

    domains = (*(domain or ()), *(("planners",) if memory else ()))
    asked = command.Request(
        seconds, engines(engine), domains, tuple(share or ()), seed, case, wishes, jobs,
        options(planner, option), findings, stop_after, timeout, coverage, html, lines,
    )  # fmt: skip
    raise typer.Exit(command.fuzz(asked, json))


@app.command(short_help="Judge a program at every level on random inputs.")
def check(
    file: File,
    engine: Engine = None,
    dim: Dim = None,
    seed: Annotated[int, typer.Option(help="Seed of the input values, 0 or more.")] = 1,
    tries: Annotated[
        int | None,
        typer.Option(
            help="Rounds of inputs, 1 or more (default: many for small programs, 3 for large ones)."
        ),
    ] = None,
    planner: Planner = "didyma",
    option: Option = None,
    timeout: Timeout = 600.0,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="Another implementation to judge on the same inputs, such as onnxruntime.",
            autocompletion=complete("peers"),
        ),
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
        Path | None,
        typer.Option(
            help="Write the round that disagreed, or else the first, to a file for `didyma replay`."
        ),
    ] = None,
    ring: Annotated[
        bool,
        typer.Option(
            "--ring/--no-ring", help="Judge in the ring too, which sees terms that rounding hides."
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Judge a program at every level on rounds of inputs (default engines: simt and host)."""
    from didyma.commands import check as command
    from didyma.commands.common import options

    wanted, peers, values = engines(engine), tuple(peer or ()), value or ()
    raise typer.Exit(
        command.check(
            file,
            wanted,
            dim or [],
            seed,
            options(planner, option),
            timeout,
            json,
            peers,
            values,
            save,
            tries,
            ring=ring,
        )
    )


@app.command(short_help="Write a program as an ONNX model.")
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


@app.command(short_help="Judge findings again, under the same conditions.")
def replay(
    files: Annotated[
        list[Path],
        typer.Argument(help="Findings written by `didyma fuzz`, folders of them, or - for stdin."),
    ],
    engine: Engine = None,
    timeout: Timeout = 600.0,
    json: Json = False,
) -> None:
    """Judge findings again, each with its own inputs, engines and options."""
    from didyma.commands import replay as command

    raise typer.Exit(command.replay(files, engines(engine), timeout, json))


app.command(short_help="Find a CUDA kernel's faults of memory and synchronisation.")(
    cli_kernels.sanitize
)
app.command(short_help="Judge a CUDA kernel by a specification, without a GPU.")(cli_kernels.judge)
app.command(short_help="Make a disagreement as small as still disagrees.")(cli_cases.minimise)
app.command(short_help="Group the findings of campaigns by cause.")(cli_cases.findings)
app.add_typer(
    cli_cases.corpus,
    name="corpus",
    help="Cases that are kept and judged again and again.",
    short_help="Keep cases and judge them again and again.",
)


app.add_typer(
    cli_bench.app,
    name="bench",
    help="Exact counters, records of benchmarks, and times on a GPU.",
    short_help="Count, compare and time what programs do.",
)


@app.command(short_help="Write the text of every level, or explain an error code.")
def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|CODE",
            help="A .dym text or an .onnx model, - for stdin; or the code of an error or law.",
            callback=stdin,
            autocompletion=_explained,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the texts.")] = Path(
        "explain"
    ),
    engine: Annotated[
        str, typer.Option("--engine", "-e", help="Engine that cached choices are for.")
    ] = "host",
    choose: Annotated[
        str, typer.Option(help="heuristic, cached, tuned, at-run, or a JSON file of choices.")
    ] = "heuristic",
    planner: Planner = "didyma",
    option: Option = None,
    json: Json = False,
) -> None:
    """Write the text of every level of a program, or explain an error code.

    The levels are graph, passes, loops, kernels, program, CUDA C and Python.  It prints the
    schedule of each function, and who picked it.
    """
    from didyma.commands import explain as command
    from didyma.commands.common import options

    raise typer.Exit(command.explain(what, out, options(planner, option), json, engine, choose))


@app.command(short_help="Place buffers in one arena by memory planners, and compare.")
def plan(
    file: Annotated[
        Path,
        typer.Argument(
            help="A trace (.csv: id,lower,upper,size), a .dym text or an .onnx model; - is stdin.",
            callback=stdin,
        ),
    ],
    planner: Annotated[
        str,
        typer.Option(help="A memory planner by name, or all.", autocompletion=complete("planners")),
    ] = "didyma",
    capacity: Annotated[
        int | None, typer.Option(min=0, help="Bytes that the arena may have.")
    ] = None,
    dim: Dim = None,
    seconds: Annotated[
        float, typer.Option(min=0, max=LONGEST, help="Longest that a planner searches.")
    ] = 50.0,
    plot: Annotated[
        Path | None, typer.Option(help="Write the best plan as a picture, in .svg.")
    ] = None,
    json: Json = False,
) -> None:
    """Place a program's or a trace's buffers in one arena; compare planners."""
    from didyma.commands import plan as command

    raise typer.Exit(command.plan(file, planner, capacity, dim or [], seconds, plot, json))


app.command(short_help="Write a program that runs without Didyma.")(cli_artifacts.build)
app.command(short_help="Run a program that was built.")(cli_artifacts.run)
app.add_typer(
    cli_artifacts.artifact,
    name="artifact",
    help="Folders that `didyma build` writes.",
    short_help="Check programs that were built.",
)
app.command(short_help="Measure the schedules of a program's functions.")(cli_choices.tune)
app.command(short_help="Apply a schedule to a loop function, step by step.")(cli_choices.schedule)


@app.command(short_help="Explain ops, and functions made of them.")
def ops(
    name: Annotated[
        str | None,
        typer.Argument(
            help="An op, or a function made of ops such as softmax (default: list all).",
            autocompletion=complete("ops"),
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the ops: what each means, its types, attributes and rules for special values."""
    from didyma.commands import ops as command

    raise typer.Exit(command.ops(name, json))


@app.command(short_help="Show what can run here, and how to install what cannot.")
def doctor(json: Json = False) -> None:
    """Show which engines and peers can run here, and how to install those that cannot."""
    from didyma.commands import doctor as command

    raise typer.Exit(command.doctor(json))


@app.command(short_help="List what has a name: engines, planners, passes, recipes and more.")
def parts(json: Json = False) -> None:
    """List what can be chosen by name, of each kind, and which package registers it."""
    from didyma.commands import parts as command

    raise typer.Exit(command.show(json))


# The base of click's errors, which typer raises but does not export.
_CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]


def _leave(number: int, frame: object) -> None:
    del frame
    sys.exit(128 + number)  # runs every `finally`, so that no child process stays behind


def main() -> None:
    """Run the command line; exit codes: 0 agree, 1 disagreement, 2 bad input, 3 internal,
    4 engine missing, 5 nothing ran, 130 Ctrl-C, 141 the reader of stdout left, 143 SIGTERM.
    """
    _mend_streams()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell ignores SIGINT for background jobs
        signal.signal(number, _leave)
    try:
        _run()
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
        sys.exit(_full(e))


def _mend_streams() -> None:
    """Open streams that are closed on the null device, and print what an encoding lacks escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run() -> None:
    """Run the command line, and tell what went wrong, but for a disk without room."""
    try:
        _must_be_somewhere()
        code = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code)
    except DidymaError as e:
        _print(e)
        sys.exit(e.exit_code)
    except _CLICK_ERROR as e:
        sys.exit(_usage(e))
    except SystemExit as e:
        if isinstance(e.__context__, BrokenPipeError):  # click and rich end with 1
            sys.exit(141)  # as if by SIGPIPE
        raise
    except MemoryError as e:
        help = "ask for smaller arrays, or bind smaller sizes"
        found = DidymaError(
            "too-large", "this command", got=str(e) or "no memory left",
            want="arrays that fit in memory", help=help,
        )  # fmt: skip
        _print(found)
        sys.exit(found.exit_code)
    except Exception as e:  # an EOFError among them, of which click makes an Abort
        if isinstance(e, OSError) and e.errno == errno.ENOSPC:
            raise
        traceback.print_exc()
        print("didyma: this is a bug in didyma, not in your input", file=sys.stderr)
        sys.exit(3)


def _must_be_somewhere() -> None:
    """Raise ``unreadable-file`` where the current folder was deleted."""
    try:
        Path.cwd()
    except FileNotFoundError:
        got, help = "a current folder that was deleted", "change to one that exists: cd FOLDER"
        raise DidymaError("unreadable-file", ".", got=got, want="a folder", help=help) from None


def _full(e: OSError) -> int:
    """Say that a disk has no room for the output, or for what Didyma keeps; return the code."""
    where = str(e.filename or "the output")
    found = DidymaError("unwritable", where, got=str(e.strerror), want="a disk with room")
    sys.stdout = sys.stderr  # the output takes no more, not even what waits for its end
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    print(f"didyma: {found}", file=sys.stderr)
    return found.exit_code


def _usage(error: Any) -> int:
    """Print an error of the command line's syntax; return the exit code."""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "didyma"
    got = error.format_message()
    if got.startswith("Usage:"):  # no words at all, and this is the help
        print(got, file=sys.stderr)
        return int(error.exit_code)
    want = f"arguments and options as `{command} --help` lists them"
    found = DidymaError("bad-option", command, got=got, want=want)
    _print(found)
    return found.exit_code


def _print(e: DidymaError) -> None:
    print(f"didyma: {as_given(str(e))}", file=sys.stderr)
    for note in getattr(e, "__notes__", ()):
        print(f"  {note}", file=sys.stderr)
    print(f"  `didyma explain {e.code}` says more", file=sys.stderr)
    _print_json(e)


def _print_json(e: DidymaError) -> None:
    """Print an error as the one JSON document, if one was asked for."""
    if "--json" in sys.argv:
        fields = {"code": e.code, "where": e.where, "got": e.got, "want": e.want, "help": e.help}
        place = {"file": e.file, "line": e.line} if e.line else {}
        print_json({"error": fields | place})
