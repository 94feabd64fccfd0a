"""Every public name: what this module holds is what ``didyma`` has.

Each name is listed once, in the ``__all__`` of the module that defines it.
"""
# ruff: noqa: F403  # the modules say what is public

import typing as _typing
from importlib import import_module as _import_module

from didyma import complex as complex
from didyma import fft as fft
from didyma import linalg as linalg
from didyma import signal as signal
from didyma.checking import check as check
from didyma.codegen.options import GraphOptions as GraphOptions
from didyma.codegen.options import KernelOptions as KernelOptions
from didyma.codegen.options import MemoryOptions as MemoryOptions
from didyma.codegen.options import Options as Options
from didyma.codegen.runtime.carried import Carried as Carried
from didyma.functions.aliases import *
from didyma.functions.control import cond as cond
from didyma.functions.control import noinline as noinline
from didyma.functions.control import scan as scan
from didyma.functions.control import while_loop as while_loop
from didyma.functions.creation import *
from didyma.functions.devices import *
from didyma.functions.dtypes import *
from didyma.functions.elementwise import *
from didyma.functions.gradients import *
from didyma.functions.joining import *
from didyma.functions.lookup import *
from didyma.functions.neural import *
from didyma.functions.products import *
from didyma.functions.ragged import *
from didyma.functions.randomness import *
from didyma.functions.reductions import *
from didyma.functions.shaping import *
from didyma.functions.sizes import *
from didyma.functions.windows import *
from didyma.kernels import kernel as kernel
from didyma.libraries import library as library
from didyma.loops import LoopExecutable as LoopExecutable
from didyma.loops import LoopProgram as LoopProgram
from didyma.padding import Bucketed as Bucketed
from didyma.padding import bucketed as bucketed
from didyma.parts import register as register
from didyma.refimpl.errors import DidymaError as DidymaError
from didyma.refimpl.ir.intrinsic import Intrinsic as Intrinsic
from didyma.refimpl.ir.kernel import Images as Images
from didyma.refimpl.ir.kernel import TensorMap as TensorMap
from didyma.refimpl.ir.kernel import TextKernel as TextKernel
from didyma.refimpl.ir.loop import Buffer as Buffer
from didyma.refimpl.ir.target import Target as Target
from didyma.running import Executable as Executable
from didyma.running import Interpreted as Interpreted
from didyma.running import compile as compile
from didyma.running import interpret as interpret
from didyma.tracer.arrays import as_complex as as_complex
from didyma.tracer.tensor import Tensor as Tensor
from didyma.tracer.tracing import Program as Program
from didyma.tracer.tracing import load as load
from didyma.tracer.tracing import trace as trace
from didyma.tracer.types import Size as Size
from didyma.tracer.types import dim as dim

if _typing.TYPE_CHECKING:  # type checkers read the imports
    from didyma import testing as testing
else:
    __all__ = sorted({"testing", *(name for name in globals() if not name.startswith("_"))})

    def __getattr__(name: str) -> _typing.Any:
        """Import ``testing`` when it is asked for: no compile waits for the judge of kernels."""
        if name == "testing":
            return _import_module("didyma.testing")
        raise AttributeError(f"module 'didyma.api' has no attribute {name!r}")
