"""The engine ``simt``: emitted kernel text run by NumPy, every thread a lane, every check on."""

from didyma.codegen.runtime.simt.access import Traffic
from didyma.codegen.runtime.simt.engine import Simt

__all__ = ["Simt", "Traffic"]
