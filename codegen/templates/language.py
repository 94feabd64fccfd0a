"""The language of templates: jinja2, with hooks that write parts of a function into the text.

What a template renders is one kernel in the project's subset of CUDA C, as of ``TextKernel``.
After the partial rendering and the hooks of PyTorch Inductor's ``select_algorithm``: a hook leaves
a hole, which is filled when the whole text is known.
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from didyma.codegen.templates.hooks import NAMES, Hooks
from didyma.codegen.templates.problem import Problem
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.kernel import ChainRule, TensorMap, TextKernel
from didyma.refimpl.ir.loop import Buffer

if TYPE_CHECKING:
    from jinja2 import Template as Jinja

Given: TypeAlias = int | str  # what a text asks for by its name, beside what hooks tell
FILE = "<template>"  # by which tracebacks name a template that is no file


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is launched, and its longest chain of additions, as of ``TextKernel``.

    ``names`` are what the text of the template may use beside the values of its parameters, and
    ``workspace`` buffers that the kernel is given beside those of its function, each by the word
    that the text has for it.  Those of ``zeroed`` words hold zeros when the kernel starts.
    ``maps`` are tensor maps of buffers of the function, likewise by their words.
    """

    grid: tuple[Dim, Dim, Dim]
    block: tuple[int, int, int]
    chain: ChainRule | None = None
    names: Mapping[str, Given] = field(default_factory=lambda: MappingProxyType({}))
    workspace: Mapping[str, Buffer] = field(default_factory=lambda: MappingProxyType({}))
    zeroed: tuple[str, ...] = ()
    cluster: int = 1
    maps: Mapping[str, TensorMap] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a template, and the name by which errors call it."""

    name: str
    source: str

    def render(self, problem: Problem, values: Mapping[str, int], launch: Launch) -> TextKernel:
        """Return the kernel for a problem, with values of the parameters.

        DidymaError ``bad-template``, with the line of the template, for a text that is no jinja2,
        that uses a name nobody gave, or that calls a hook wrongly, twice or never; and for a name
        that stands for two things.
        """
        names = [*NAMES, *problem.operands, *problem.bodies, *values, *launch.names]
        names += [*launch.workspace, *launch.maps]
        if double := sorted({n for n in names if names.count(n) > 1}):
            raise self.error(0, f"{', '.join(double)} for two things", "a name for each")
        threads, more = math.prod(launch.block), launch.workspace
        hooks = Hooks(problem, self.name, threads, self.error, _line, more, launch.cluster,
                      launch.maps)  # fmt: skip
        try:
            rendered = compiled(self.source).render(**hooks.table(), **values, **launch.names)
        except DidymaError:
            raise
        except Exception as e:
            raise self.error(
                failed_line(e), f"{type(e).__name__}: {e}", "jinja2 that renders"
            ) from e
        text, writer = hooks.finished(rendered)
        loop, array = problem.loop, writer.arrays
        return TextKernel(
            text, tuple(array[b] for b in loop.inputs), tuple(array[b] for b in loop.outputs),
            launch.grid, launch.block, (*more.values(),), launch.chain,
            (*writer.intrinsics.values(),), tuple(more[word].name for word in launch.zeroed),
            tuple(replace(m, buffer=array[m.buffer]) for m in launch.maps.values()),
        )  # fmt: skip

    def error(self, line: int, got: str, want: str) -> DidymaError:
        """Return the error of a line of the template, counted from 1; 0 stands for all of it."""
        place = f"template {self.name}" + (f", line {line}" if line else "")
        shown = self.source.split("\n")[line - 1] if line else ""
        return DidymaError("bad-template", place, got, want, file=self.name, line=line, shown=shown)


@lru_cache(maxsize=64)
def compiled(source: str) -> Jinja:
    """Return a text as jinja2, in which a name that nobody gave is an error."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(source)


def _line() -> int:
    """Return the line of the template from which a hook is called."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if (template := frame.f_globals.get("__jinja_template__")) is not None:
            return int(template.get_corresponding_lineno(frame.f_lineno))
        frame = frame.f_back
    return 0


def failed_line(e: Exception) -> int:
    """Return the line of the template at which an exception was raised."""
    lines = [f.lineno or 0 for f in traceback.extract_tb(e.__traceback__) if f.filename == FILE]
    return int(getattr(e, "lineno", 0)) or (lines[-1] if lines else 0)
