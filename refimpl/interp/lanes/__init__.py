"""The fast interpreter of loop programs: all threads at once, on NumPy arrays, with race checks.

It yields the bits of the definition, ``refimpl.interp.loop``, and finds races besides.
"""

from didyma.refimpl.interp.lanes.statements import run

__all__ = ["run"]
