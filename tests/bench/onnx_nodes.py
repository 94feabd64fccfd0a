"""Run onnx's test suites through the levels, and write ``docs/onnx.md`` from what was measured.

``python -m tests.bench.onnx_nodes graph loop --save DIR`` runs levels and keeps the outcomes;
``python -m tests.bench.onnx_nodes --docs DIR`` writes the page from every level kept there.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.runner import Runner
from rich.console import Console
from rich.progress import track

from didyma.onnx import schemas
from didyma.onnx.functions import defined
from didyma.onnx.nodes import HANDLERS
from didyma.onnx.rules import sequences
from didyma.onnx.rules.control import CONTROL
from didyma.onnx_backend import LEVELS, backend_for
from didyma.refimpl.errors import DidymaError
from tests.bench.onnx_core import is_core
from tests.bench.onnx_suites import MODELS, NODE, cases

MOST_SECONDS = 120  # of a case, after which it does not pass
PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """The outcome of one case; ``reason`` is empty if it passed.

    ``folded``: the import needed the inputs' values, and nothing was left to run.  ``core``: see
    ``tests.bench.onnx_core``.
    """

    name: str
    reason: str
    folded: bool
    seconds: float
    core: bool
    suite: str = NODE


def run_case(case: TestCase, level: str) -> NodeOutcome:
    """Run a case as ``BackendTest`` does."""
    start = time.perf_counter()
    reason, folded = "", False
    assert case.model is not None
    try:
        ready = backend_for(level).prepare(case.model, "CUDA" if level == "cuda" else "CPU")
        for inputs, want in case.data_sets or ():
            got = ready.run([as_array(i) for i in inputs])
            refs = [as_array(w) for w in want]
            Runner.assert_similar_outputs(refs, got, case.rtol, case.atol)
        entries = [m.entry for m, _ in ready.ready.values()]
        folded = not any(e.params for e in entries) and all(
            n.op == "constant" for e in entries for n in e.nodes
        )
    except Exception as e:  # any exception is an outcome
        reason = why(e)
    seconds = time.perf_counter() - start
    return NodeOutcome(case.name, reason, folded, seconds, is_core(case.model), case.kind)


def as_array(x: Any) -> Any:
    """Return a tensor of a case, some of which are protos, as an array."""
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def why(e: Exception) -> str:
    """Return one line that describes an error, equal for cases of one cause."""
    if isinstance(e, DidymaError):
        return f"{e.code}: {e.got}"
    lines = [line for line in str(e).splitlines() if line.strip()] or [""]
    if isinstance(e, AssertionError):
        return "values differ: " + " ".join(lines[:2])[:160]
    return f"{type(e).__name__}: {lines[0]}"[:160]


def run_level(level: str, chosen: Sequence[TestCase]) -> Iterator[NodeOutcome]:
    """Yield the outcomes of cases, run one after another."""
    signal.signal(signal.SIGALRM, _late)
    for case in chosen:
        signal.alarm(MOST_SECONDS)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outcome = run_case(case, level)
        signal.alarm(0)
        yield outcome


def _late(number: int, frame: object) -> None:
    del number, frame
    raise TimeoutError(f"more than {MOST_SECONDS} s")


def by_reason(outcomes: Sequence[NodeOutcome]) -> list[tuple[str, list[str]]]:
    """Return the cases that do not pass, by reason, the most frequent first."""
    found: dict[str, list[str]] = defaultdict(list)
    for o in outcomes:
        if o.reason:
            found[o.reason].append(o.name)
    return sorted(found.items(), key=_rank)


def _rank(item: tuple[str, list[str]]) -> tuple[int, str]:
    return -len(item[1]), item[0]


def print_level(level: str, outcomes: Sequence[NodeOutcome], verbose: bool) -> None:
    """Print the outcomes of a level by reason."""
    print(line_of(level, of_suites(outcomes, NODE)))
    print(models_line(level, outcomes))
    for reason, names in by_reason(outcomes):
        print(f"{len(names):5} {reason}")
        if verbose:
            print("      " + " ".join(names))


def line_of(level: str, outcomes: Sequence[NodeOutcome]) -> str:
    """Return one row of the page's first table."""
    passed = [o for o in outcomes if not o.reason]
    folded = sum(o.folded for o in passed)
    seconds = sum(o.seconds for o in outcomes)
    core = f"{sum(o.core for o in passed)} of {sum(o.core for o in outcomes)}"
    return f"| {level} | {len(passed)} | {len(outcomes)} | {core} | {folded} | {seconds:.0f} |"


def of_suites(outcomes: Sequence[NodeOutcome], *suites: str) -> list[NodeOutcome]:
    """Return the outcomes of some suites."""
    return [o for o in outcomes if o.suite in suites]


def models_line(level: str, outcomes: Sequence[NodeOutcome]) -> str:
    """Return one row of the page's table of the suites of models."""
    each = [of_suites(outcomes, suite) for suite in MODELS]
    shares = [f"{sum(not o.reason for o in many)} of {len(many)}" for many in each]
    models = [o for many in each for o in many]
    folded = sum(o.folded for o in models if not o.reason)
    seconds = sum(o.seconds for o in models)
    return f"| {level} | {' | '.join(shares)} | {folded} | {seconds:.0f} |"


# The page ---------------------------------------------------------------------------------------


# Where the expected numbers are one answer of several.
LAWFUL = (
    "`bernoulli…`, `training_dropout…`: the results are random, and ONNX does not specify the"
    " generator; the expected numbers come from NumPy's.",
    "`dft_inverse…`: 10 imaginary parts that are exactly 0 are expected to be 1.9e-7, a rounding"
    " error of a fast transform in complex64. Didyma's are below 4e-15.",
    "`attention_4d_gqa_with_past_and_present_fp16…`, at the levels below graph: 4 elements are the"
    " other one of the two f16 numbers next to the exact value, because a kernel keeps intermediate"
    " values in f32. Compared with f64, the largest error is 0.000477; that of the expected numbers"
    " is 0.000508.",
)


# Where a peer's result is not ours on models that ONNX allows.
PEER = (
    "`ArgMax`, `ArgMin` and `MaxPool` of NaN: in ONNX Runtime the result depends on the position of"
    " the NaN. In Didyma NaN wins, as in NumPy and, for `ArgMax`, in ONNX's reference evaluator.",
    "`ReduceMean` of no elements is 0 in ONNX Runtime, and NaN in Didyma. `MaxPool` of -inf with"
    " padding is the least finite number in ONNX Runtime, and -inf in Didyma.",
    "`Cast` and `QuantizeLinear` to integers: ONNX does not say what becomes of NaN and of numbers"
    " out of range. In Didyma NaN becomes 0, and other numbers the nearest one in range.",
    "`DynamicQuantizeLinear` of zeros has the scale 1 in ONNX Runtime, and 0 in Didyma, as its"
    " formula says.",
    "`Resize` with `align_corners`, and scales for which the sizes are not whole numbers, uses the"
    " rounded sizes in ONNX Runtime, and the exact ones in Didyma, as ONNX's node tests do.",
    "`STFT` of a length that is not a power of two is off by 3e-5 of the largest value in ONNX"
    " Runtime.",
)


def page(levels: Mapping[str, Sequence[NodeOutcome]]) -> str:
    """Return the text of ``docs/onnx.md``."""
    first = "graph"
    nodes = {level: of_suites(outcomes, NODE) for level, outcomes in levels.items()}
    nodes = {level: found for level, found in nodes.items() if found}
    models = {level: of_suites(outcomes, *MODELS) for level, outcomes in levels.items()}
    own = {*HANDLERS, *sequences.HANDLERS}
    lines = [
        "# ONNX",
        "",
        "`python -m tests.bench.onnx_nodes --docs DIR` wrote this page from the outcomes that",
        f"`python -m tests.bench.onnx_nodes {' '.join(LEVELS)} --save DIR` measured.",
        f"The node tests are those of onnx {onnx.__version__}, run as its `BackendTest` does.",
        "Levels that are not in the table were not measured.",
        "",
        "| level | pass | cases | core | folded | seconds |",
        "|---|---:|---:|---:|---:|---:|",
        *(line_of(level, outcomes) for level, outcomes in nodes.items()),
        "",
        "*Core* counts the cases of plain element types that use none of the ops listed in",
        "`tests/bench/onnx_core.py`. Four of these cases, dropout in training, are random.",
        "",
        "*Folded* counts the cases that pass but test no level: the import needs the values of the",
        "inputs to know the model's sizes or branches, and then computes the whole model.",
        "",
        "## Suites of models",
        "",
        "The `onnx` wheel contains these models together with their expected outputs. ONNX's",
        "reference evaluator passes all cases of the first two suites, and 21 of 23 of the third.",
        "",
        f"| level | {' | '.join(MODELS)} | folded | seconds |",
        f"|---|{'---:|' * len(MODELS)}---:|---:|",
        *(models_line(level, outcomes) for level, outcomes in models.items()),
        "",
        f"Cases that do not pass at the level {first}:",
        "",
        *_reasons(models[first]),
        "",
        *_other_levels(models),
        "## Operators",
        "",
        f"{len(own)} operators have import rules of their own:",
        "",
        ", ".join(f"`{name}`" for name in sorted(own)) + ".",
        "",
        f"The operators {', '.join(f'`{n}`' for n in sorted(CONTROL))} are inlined or unrolled if",
        "the import can determine the branch or the number of iterations, and this number is",
        "small. Otherwise they run as branches, loops and scans, and so do recurrent layers of",
        "many steps. Data-dependent sizes are bound while the program runs; sizes that the model",
        "computes from them are expressions over these. The length of a sequence must be known at",
        "import, and the inputs and outputs of a model may not be sequences.",
        "",
        "These operators are imported through the functions by which ONNX defines them:",
        "",
        ", ".join(f"`{name}`" for name in by_function()) + ".",
        "",
        f"## Node tests that do not pass at the level {first}",
        "",
        *_reasons(nodes[first]),
    ]
    for level, outcomes in list(nodes.items())[1:]:
        lines += ["", f"## Outcomes of {level} that differ from those of {first}", ""]
        lines += _differences(nodes[first], outcomes) or ["None."]
    lines += ["", "## Expected values that are one right answer of several", ""]
    lines += [f"- {note}" for note in LAWFUL]
    lines += ["", "## Where ONNX Runtime 1.32.0 differs", "", *(f"- {note}" for note in PEER)]
    return "\n".join(lines) + "\n"


def by_function() -> list[str]:
    """Return the operators without a rule that ONNX defines as functions."""
    by_others = {s.name for s in schemas.schemas() if defined(s)}
    own = {*HANDLERS, *sequences.HANDLERS, *CONTROL, "Range"}
    return sorted(by_others - own)


def _other_levels(levels: Mapping[str, Sequence[NodeOutcome]]) -> list[str]:
    """Return lines on the levels at which a suite of models differs from the first."""
    first, *others = levels
    lines: list[str] = []
    for level in others:
        if found := _differences(levels[first], levels[level]):
            lines += [f"Outcomes of {level} that differ from those of {first}:", "", *found, ""]
    return lines or [f"Every other level passes the same cases as {first}.", ""]


def _reasons(outcomes: Sequence[NodeOutcome]) -> list[str]:
    lines: list[str] = []
    for reason, names in by_reason(outcomes):
        plain = reason.replace("<", "&lt;").replace("*", "\\*")
        short = ", ".join(n.removeprefix("test_") for n in names)
        lines += [f"- **{len(names)}: {plain}**<br>{short}"]
    return lines or ["None."]


def _differences(first: Sequence[NodeOutcome], other: Sequence[NodeOutcome]) -> list[str]:
    known = {o.name: o.reason for o in first}
    changed = [o for o in other if bool(o.reason) != bool(known.get(o.name, ""))]
    worse = [o for o in changed if o.reason]
    better = [o.name for o in changed if not o.reason]
    lines = _reasons(worse) if worse else []
    return lines + ([f"- also passes: {', '.join(better)}"] if better else [])


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("levels", nargs="*", help=f"of {', '.join(LEVELS)}")
    parser.add_argument("--suites", nargs="+", default=[NODE, *MODELS], help="all by default")
    parser.add_argument("-k", default="", help="only cases whose name contains this")
    parser.add_argument("-v", action="store_true", help="name every case that does not pass")
    parser.add_argument("--save", type=Path, help="folder to keep each level's outcomes in")
    parser.add_argument("--docs", type=Path, help="write docs/onnx.md from a folder of outcomes")
    args = parser.parse_args(argv)
    chosen = [c for c in cases(args.suites) if args.k in c.name] if args.levels else []
    for level in args.levels:
        console = Console(stderr=True)
        running = run_level(level, chosen)
        outcomes = list(track(running, level, len(chosen), console=console, transient=True))
        print_level(level, outcomes, args.v)
        if args.save:
            args.save.mkdir(parents=True, exist_ok=True)
            text = json.dumps([asdict(o) for o in outcomes], indent=0)
            (args.save / f"{level}.json").write_text(text, encoding="utf-8")
    if args.docs:
        files = {level: args.docs / f"{level}.json" for level in LEVELS}
        kept = {
            level: [NodeOutcome(**o) for o in json.loads(f.read_text(encoding="utf-8"))]
            for level, f in files.items()
            if f.exists()
        }
        PAGE.write_text(page(kept), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
