"""Plant faults and generated mutants, and see that the checks kill them.

Without a choice these are every named fault and a sample of 400 generated mutants: changes of
the Python of ``codegen``, of the C of the prelude, and of the kernels of drawn programs.  Exit code
0 if every mutant is killed or equivalent, 1 if not, 2 for bad options, 5 if not all were run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from didyma.refimpl.errors import DidymaError

SAMPLE = 400
FOUND, SURVIVED, USAGE, UNFINISHED = 0, 1, 2, 5
QUICKEST = 0.1  # seconds of processor time of a mutant that its first case shows
SURVIVORS = 0.3  # of all mutants, each of which takes its whole time: docs/mutants.md has the runs


def options(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    p = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    p.add_argument("names", nargs="*", help="only the named faults with one of these words")
    what = p.add_argument_group("what is planted")
    what.add_argument("--sample", type=int, metavar="N", help="so many generated mutants")
    what.add_argument("--all", action="store_true", help="every generated mutant")
    what.add_argument("--named", action="store_true", help="every named fault")
    what.add_argument("--only", metavar="PATTERN", help="those whose id, name or file matches")
    how = p.add_argument_group("how they are hunted")
    how.add_argument("--seed", type=int, default=0, help="of the sample, and of all campaigns")
    how.add_argument("--seconds", type=float, default=60.0, help="processor time a mutant")
    how.add_argument("--programs", type=int, default=800, help="graphs of the campaign on host")
    how.add_argument("--minutes", type=float, help="stop in time; a run that cannot finish in it "
                     "says so, and --resume goes on")  # fmt: skip
    how.add_argument("--record", type=float, default=40.0, metavar="SECONDS",
                     help="processor time of each job to record which checks reach which lines; "
                     "kept for later runs")  # fmt: skip
    how.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    how.add_argument("--resume", type=Path, metavar="FILE", help="keep results, go on from there")
    output = p.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print one JSON object last")
    output.add_argument("--write", action="store_true", help="add the run to docs/mutants.md")
    other = p.add_argument_group("measurements of their own")
    other.add_argument("--memory", action="store_true", help="programs until each memory fault "
                       "is found, from many seeds; --write puts them on their page")  # fmt: skip
    other.add_argument("--rounds", type=int, default=20, help="first seeds a memory fault")
    other.add_argument("--groups", action="store_true", help="groups of findings of named faults")
    return p.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    args = options(words)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a forked child has no threads
    from didyma.refimpl.errors import DidymaError

    try:
        return run(args)
    except DidymaError as e:
        print(e, file=sys.stderr)
        return e.exit_code


def run(a: argparse.Namespace) -> int:
    """Do what the options say."""
    if a.memory:
        from tests.mutants.memory import page

        page.main(a.names, a.rounds, a.write)
    if a.groups:
        from tests.mutants import copies

        for text in copies.groups(a.names, a.seconds, a.seed):
            print(text, flush=True)
        return FOUND
    check(a)
    return hunt(a)


def check(a: argparse.Namespace) -> None:
    """Refuse options that cannot be followed: DidymaError ``bad-option``."""
    from didyma.refimpl.errors import DidymaError

    for name, least in (("sample", 1), ("seconds", 0.1), ("programs", 1), ("jobs", 1),
                        ("record", 0.1)):  # fmt: skip
        value = getattr(a, name)
        if value is not None and value < least:
            raise DidymaError("bad-option", f"--{name} {value}", got=str(value),
                              want=f"{least} or more")  # fmt: skip
    if a.minutes is not None and not a.minutes > 0:
        raise DidymaError("bad-option", f"--minutes {a.minutes}", got=str(a.minutes),
                          want="minutes, more than 0")  # fmt: skip


def hunt(a: argparse.Namespace) -> int:
    """Hunt mutants, print what came of them, and return the exit code."""
    began = time.monotonic()
    from didyma.fuzz.signals import stop_requests
    from tests.mutants import equivalents, report, sources
    from tests.mutants.choosing import Choice, once
    from tests.mutants.engine import RECORDED, Engine, HuntPlan
    from tests.mutants.progress import Bar
    from tests.mutants.reached import key
    from tests.mutants.state import State

    until = began + 60 * a.minutes if a.minutes else float("inf")
    plain = not (a.sample or a.all or a.named or a.names or a.only)
    sample = a.sample or (SAMPLE if plain else 0)
    every = a.all or bool(a.only and not a.sample)
    choice = Choice(sample, every, a.named or plain or bool(a.only and not a.sample),
                    tuple(a.names), a.only or "", a.seed)  # fmt: skip
    entries = equivalents.load()
    asked = {"choice": repr(choice), "seconds": a.seconds, "programs": a.programs}
    state = State(a.resume, {**asked, "sources": key()})
    planted = list(choice.planted())
    wanted = len(planted) + sample
    least, likely = minutes(a, max(0, wanted - len(state.results)))
    if a.minutes and a.minutes < least and not a.resume:
        why = f", which take {least:.2g} minutes at least"
        return told(a, report.summary([], wanted, []), unfinished(a, 0, wanted, why))
    if a.minutes and a.minutes < likely:
        print(f"--minutes {a.minutes:g}: {wanted} mutants are likely to take {likely:.0f}; those "
              "that are left are told last", file=sys.stderr)  # fmt: skip
    with stop_requests() as stop, Bar(a.json) as bar:
        plan = HuntPlan(a.seed, a.programs, a.seconds, a.jobs, record=a.record, until=until)
        engine = Engine(plan, bar.show, lambda: bool(stop.signal))
        generated = list(sources.every())
        texts = engine.texts() if sample or every else []
        targets = list(once((*planted, *choice.generated(generated, texts))))
        if engine.in_time():
            engine.measure(RECORDED, sum(t.id not in state.results for t in targets))
        if engine.in_time():
            engine.hunt(targets, entries, state, lambda r: bar.line(report.line(r)))
            engine.explain(targets, state)
    results = [state.results[t.id] for t in targets if t.id in state.results]
    stale = equivalents.unmatched(entries, generated)
    summary = report.summary(results, len(targets) - len(results), stale)
    summary["wrong_without_mutants"] = engine.reached.findings
    summary["minutes"] = round((time.monotonic() - began) / 60, 2)
    if a.write:
        report.write(results, "python -m tests.mutants " + " ".join(sys.argv[1:]))
    error = None if len(results) == len(targets) else unfinished(a, len(results), len(targets))
    code = told(a, summary, error)
    if stop.signal:
        return 128 + stop.signal
    if error:
        return code
    return SURVIVED if any(r.outcome != "killed" and not r.equivalent for r in results) else FOUND


def minutes(a: argparse.Namespace, wanted: int) -> tuple[float, float]:
    """Return the minutes that so many mutants take at least, and those that they are likely to."""
    each = QUICKEST, QUICKEST + SURVIVORS * a.seconds
    least, likely = (wanted * seconds / a.jobs / 60 for seconds in each)
    return least, likely


def told(a: argparse.Namespace, summary: dict[str, Any], error: DidymaError | None) -> int:
    """Print what came of a run; return ``UNFINISHED`` if it says that some mutants were not run."""
    from tests.mutants import report

    if error:
        summary["error"] = {"code": error.code, "got": error.got, "help": error.help}
        print(error, file=sys.stderr)
    print(json.dumps(summary) if a.json else report.brief(summary))
    return UNFINISHED if error else FOUND


def unfinished(a: argparse.Namespace, done: int, wanted: int, why: str = "") -> DidymaError:
    """Return what says that a run ended before all of its mutants were hunted, or is going to."""
    from didyma.refimpl.errors import DidymaError

    file = f"--resume {a.resume}" if a.resume else "--resume FILE"
    return DidymaError(
        "unfinished", f"--minutes {a.minutes:g}" if a.minutes else "the run",
        got=f"{done} of {wanted} mutants hunted{why}", want="all of them",
        help=f"the same command with {file} goes on where such a run ended, or give more minutes",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
