"""The fast interpreter of loop programs: all threads at once, on NumPy arrays, with race checks.

``refimpl.interp.loop`` defines what loop programs mean, one thread at a time.  This interpreter
yields the same bits and the same faults, much sooner, and it reports races besides.
``python -m tests.bench.interpreters`` compares the two.
"""

from didyma.oracle.lanes.statements import run

__all__ = ["run"]
