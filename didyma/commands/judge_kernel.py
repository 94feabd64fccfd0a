"""``didyma judge``: whether a kernel computes what its specification says, without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import replace
from json import dumps
from pathlib import Path

from rich.console import Console

from didyma.codegen.runtime.disk import must_have_folder, must_take_file, read_text, write_file
from didyma.commands import common, exits
from didyma.files import require_folders
from didyma.judging import certificate
from didyma.judging.adapters import load_inline, solution, written
from didyma.judging.contracts import Declared
from didyma.judging.judge import Judgement, Outcome, judge, located
from didyma.judging.making import (
    Launch,
    launch_of,
    make_task,
    merged,
    ranges_of,
    read_source,
    sizes_of,
)
from didyma.judging.request import Request, described, kept, relative
from didyma.judging.specs import load_spec
from didyma.judging.task import Draw, Task
from didyma.refimpl.errors import DidymaError, counted
from didyma.refimpl.ir.graph import Module
from didyma.show import judge_kernel as show

_EXITS = {
    Outcome.CORRECT: common.AGREE,
    Outcome.WRONG: common.DISAGREE,
    Outcome.DIFFERENT: common.DISAGREE,
    Outcome.CANNOT_TELL: common.NOTHING_RAN,
}


def command(asked: Request, keep: Path | None, json: bool) -> int:
    """Judge a kernel, print the verdict, and keep a certificate where a file is named."""
    if keep is not None:
        must_take_file(keep)
        _must_be_kept(asked)
    asked = described(asked)
    found = judged(asked, quiet=json)
    record = show.record(found, asked.file)
    if keep is not None:
        made = certificate.certificate(found, relative(asked, keep.parent))
        certificate.write(keep, made)
    if json:
        common.print_json(record)
    else:
        show.text(record)
    return _EXITS[found.outcome]


def _must_be_kept(asked: Request) -> None:
    """Raise ``bad-option`` for a kernel on stdin, which ``--check`` could not read again."""
    if (given := exits.as_given(asked.file)) != asked.file:
        raise DidymaError(
            "bad-option", "--certificate", got=f"a kernel from {given}",
            want="a kernel in a file, which --check reads again",
            help="write the kernel to a file, and name that",
        )  # fmt: skip


def check(path: Path, json: bool) -> int:
    """Judge the kernel of a certificate again, and say whether all that it states still holds.

    Errors: ``bad-certificate``, ``stale-certificate``, and those of judging.
    """
    old = certificate.read(path)
    if test := old["asked"].get("test"):
        raise DidymaError(
            "bad-certificate", str(path), got=f"a certificate of {test}, which has the kernel",
            want="a certificate as `didyma judge` wrote it",
            help=f'run the test again: pytest "{test}"',
        )  # fmt: skip
    asked = kept(old["asked"], path)
    task = task_of(asked)
    now = {
        "kernel": {"sha256": certificate.digest(task.source.text)},
        "spec": {"sha256": certificate.of_spec(task.spec)},
    }
    certificate.require_same(path, old, now)
    found = _watched(task, quiet=json, only=old["rounds"])
    new = certificate.certificate(found, old["asked"])
    differ = certificate.changed(old, new)
    record = {
        "certificate": str(path), "verdict": new["verdict"], "holds": not differ,
        "changed": differ, "untried": new["untried"],
        "versions": {"then": old["versions"], "now": new["versions"]},
    }  # fmt: skip
    if json:
        common.print_json(record)
    elif differ:
        print(f"{path}: does not hold: {', '.join(differ)} came out differently")
    else:
        late = new["untried"]
        without = f", but for {counted(len(late), 'round')} without time" if late else ""
        print(f"{path}: holds: {new['verdict']}{without}")
    return _EXITS[found.outcome] if not differ else common.DISAGREE


def write(asked: Request, path: Path, json: bool) -> int:
    """Write the specification, or a kernel of it, as what a judge of others takes.

    Errors: ``unknown-format``, ``bad-spec``, those of specifications and of tasks.
    """
    must_have_folder(path)
    files = {path.parent / name: text for name, text in _written(described(asked), path).items()}
    for file, text in files.items():
        write_file(file, text)
        if not json:
            print(f"{file} written")
    if json:
        common.print_json({"files": list(map(str, files))})
    return common.AGREE


def _written(asked: Request, path: Path) -> dict[str, str]:
    """Return texts by the names of their files."""
    if asked.file:
        if path.suffix != ".py":
            want = "a .py file, which has ModelNew of KernelBench"
            raise DidymaError("unknown-format", str(path), got="a kernel", want=want)
        return {path.name: solution.model_new(task_of(asked))}
    spec = _spec(asked)
    if path.suffix == ".json":
        return {path.name: dumps(written.definition(spec), indent=2) + "\n"}
    if path.suffix in (".yml", ".yaml") or path.name == "reference.py":
        return written.gpumode(spec)
    if path.suffix == ".py":
        sizes = {k: row[0] for k, row in sizes_of(asked.size).items()}
        return {path.name: written.kernelbench(spec, sizes)}
    raise DidymaError(
        "unknown-format", str(path), got=path.suffix or "no suffix", want=".json, .yml or .py"
    )


def judged(asked: Request, *, quiet: bool = False) -> Judgement:
    """Judge what was asked for; unless ``quiet``, stderr shows the round."""
    return _watched(task_of(asked), quiet=quiet)


def _watched(task: Task, *, quiet: bool, only: Collection[str] | None = None) -> Judgement:
    with Console(stderr=True, quiet=quiet).status("compiling") as status:
        found = judge(task, lambda words: status.update(f"judging: {words}"), only=only)
        status.update("looking for the line at fault")
        return located(found)


def task_of(asked: Request) -> Task:
    """Return the task of a request.

    Errors: ``bad-option`` without a specification, those of specifications and of tasks.
    """
    path = Path(asked.file)
    spec = _spec(asked)
    require_folders(map(Path, asked.include), "--include")
    folders = (path.resolve().parent, *asked.include)
    flags = (*(f"-D{d}" for d in asked.define), *(f"-I{f}" for f in folders))
    launch = Launch(asked.kernel, asked.grid, asked.block, asked.shared, asked.arg, flags)
    launches, memory = [launch_of(t, flags, str(path)) for t in asked.launch], asked.memory
    if path.suffix == ".py":
        inline = load_inline.read(read_text(path), str(path), spec)
        source, memory = inline.source, (*inline.memory, *memory)
        own = inline.launches
        launches = launches or [merged(x, launch) for x in own[:1]] + [
            replace(x, flags=flags) for x in own[1:]
        ]
    else:
        source = read_source(path)
    contract = Declared(
        asked.accumulate,
        asked.order,
        asked.fast_math,
        asked.finite,
        asked.structure,
        asked.multiply,
    )
    draw = Draw(
        sizes_of(asked.size), asked.where, ranges_of(asked.values, spec), asked.rounds, asked.seed,
        seconds=asked.seconds,
    )  # fmt: skip
    several = launches or [launch]
    return make_task(source, spec, several, contract, draw, asked.timeout, memory)


def _spec(asked: Request) -> Module:
    if not asked.spec:
        raise DidymaError(
            "bad-option", "--spec", got="no specification",
            want="--spec FILE.dym, FILE.onnx or FILE.py::NAME",
        )  # fmt: skip
    return load_spec(asked.spec, _passed_over).module


def _passed_over(name: str, why: DidymaError) -> None:
    """Name on stderr a function of a file that nobody asked for and that cannot be traced."""
    print(f"{name} is passed over: {why}", file=sys.stderr)
