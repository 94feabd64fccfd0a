"""The fast interpreter of loop programs: every parallel loop is an axis of NumPy arrays."""

from didyma.refimpl.interp.lanes.calls import Routine
from didyma.refimpl.interp.lanes.statements import run

__all__ = ["Routine", "run"]
