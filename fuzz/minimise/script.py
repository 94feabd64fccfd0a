"""Write a finding as a Python script that stands alone: run it and see whether it still fails."""

from __future__ import annotations

import json

import numpy as np

from didyma.codegen.options import USUAL, Options
from didyma.fuzz import given
from didyma.fuzz.minimise.kernels import LEVEL, KernelCase, Kernels
from didyma.fuzz.replay import Recorded
from didyma.oracle.report import Finding
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import Array, Tensor

SMALL = 64  # elements of an input that is written as a list

_SCRIPT = '''\
"""{what}

Run this where Didyma is installed.  It judges every level of the program below, prints what
differs, and exits with 1 while something does, and with 0 once nothing does.
"""

import sys

import numpy as np
from numpy import inf, nan

from didyma.codegen.options import Options
from didyma.codegen.runtime.registry import engine
from didyma.fuzz.given import recorded
from didyma.fuzz.levels import check
from didyma.refimpl.ir.text import parse_module

PROGRAM = """\\
{program}
"""

INPUTS = [
{inputs}
]


def main() -> int:
    """Judge the program; return the exit code."""
    engines = [engine(name) for name in {engines}]
    report = check(parse_module(PROGRAM), INPUTS, engines, {options})
    for f in report.findings:
        print(f"{{f.level}} ({{f.kind}}) in {{f.where}}: {{f.message}}")
    print(report.outcome)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
'''


_KERNEL_SCRIPT = '''\
"""{what}

Run this where Didyma is installed.  It runs the loop program below by the interpreter, and {how},
prints in what they differ, and exits with 1 while they do, and with 0 once they do not.
"""

import sys

import numpy as np
from numpy import inf, nan

from didyma.codegen.options import Options
from didyma.fuzz.given import recorded
from didyma.fuzz.minimise.kernels import KernelCase, difference, runner
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import Tensor

KERNEL = """\\
{program}
"""

INPUTS = {{
{inputs}
}}

LEAST = {least}  # units in the last place: functions like exp may differ by a few


def main() -> int:
    """Run the loop program in both ways; return the exit code."""
    (function,) = parse_loop(KERNEL)
    given = tuple((name, Tensor.of(x)) for name, x in INPUTS.items())
    found = difference(KernelCase(function, {env}, given), runner({level!r}, {options}))
    wrong = found is not None and (found.fault != "" or found.ulps >= LEAST)
    print(found.message if found and wrong else "agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
'''


def kernel_script(domain: Kernels, case: KernelCase, f: Finding) -> str:
    """Return the text of a script that shows a kernel at fault."""
    scheduled = domain.level == LEVEL
    how = "again once it is scheduled" if scheduled else f"as text on the engine {domain.level}"
    return _KERNEL_SCRIPT.format(
        what=_quotable(f"{f.level} ({f.kind}) in {f.where}: {f.message}"),
        how=how,
        program=_program(show(case.function)),
        inputs="\n".join(f"    {name!r}: {_literal(t.array())}," for name, t in case.inputs),
        env=repr(case.env),
        least=domain.least,
        level=domain.level,
        options=_options(domain.options),
    )


def _program(text: str) -> str:
    """Return the text of a program as a string in triple quotes may hold it."""
    return text.rstrip().replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def script(r: Recorded) -> str:
    """Return the text of the script: the program, its inputs, the engines and the options."""
    f = r.finding
    what = f"{f.level} ({f.kind}) in {f.where}: {f.message}" if f else "A program to judge."
    arrays = given.inputs(r.module, r.env, r.seeds, r.values)
    names = [p.name for p in r.module.entry.params]
    rows = zip(names, arrays, strict=True)
    return _SCRIPT.format(
        what=_quotable(what),
        program=_program(show(r.module)),
        inputs="\n".join(f"    {_literal(x)},  # %{name}" for name, x in rows),
        engines=repr(tuple(r.engines)),
        options=_options(r.options),
    )


def _quotable(text: str) -> str:
    """Return a text on one line that a docstring may hold."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")


def _options(options: Options) -> str:
    chosen = {path: v for path, v in options.choices().items() if v != USUAL[path]}
    return f"Options().changed({chosen!r})" if chosen else "Options()"


def _literal(x: Array) -> str:
    """Return an expression of an array: of its numbers if they say every bit, else of its bytes."""
    t = Tensor.of(x)
    named = t.dtype.numpy.name
    if x.size <= SMALL and hasattr(np, named):
        again = np.array(json.loads(json.dumps(x.tolist())), t.dtype.numpy).reshape(x.shape)
        if again.tobytes() == x.tobytes():
            reshaped = "" if x.size else f".reshape({x.shape})"
            return f"np.array({x.tolist()!r}, np.{named}){reshaped}"
    return f"recorded({given.record(t)!r}).array()"
