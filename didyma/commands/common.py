"""Exit codes, and checks of the user's options, which all commands share."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from didyma import fitting
from didyma.codegen.memory import planner as planner_by_name
from didyma.codegen.memory.planners import Choice
from didyma.codegen.options import USUAL, Options
from didyma.codegen.runtime.registry import engine, names, require_target
from didyma.commands.exits import AGREE as AGREE
from didyma.commands.exits import BAD_INPUT as BAD_INPUT
from didyma.commands.exits import DISAGREE as DISAGREE
from didyma.commands.exits import ENGINE_MISSING as ENGINE_MISSING
from didyma.commands.exits import NOTHING_RAN as NOTHING_RAN
from didyma.commands.exits import print_json as print_json
from didyma.fuzz.peers.registry import peer
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control
from didyma.refimpl.ir.graph import Module

Engines: TypeAlias = tuple[str, ...] | None
Record: TypeAlias = Mapping[str, Any]  # of JSON types


def require(engines: Sequence[str], options: Options | None = None) -> None:
    """Raise if an engine is unknown, only compiles, cannot run here, or lacks the target."""
    for name in engines:
        if name == "nvrtc":
            raise DidymaError(
                "bad-option", f"--engine {name}", got="an engine that compiles and runs nothing",
                want=f"one of {', '.join(n for n in names() if n != 'nvrtc')}",
                help="`didyma doctor` says whether nvrtc works here",
            )  # fmt: skip
        made = engine(name)
        if options is not None:
            require_target(made, options.device)


def require_peers(names: Sequence[str]) -> None:
    """Raise if a peer is unknown, or cannot run here (EngineMissing)."""
    for name in names:
        peer(name)


def sizes(given: Sequence[str]) -> dict[str, int]:
    """Return the sizes of the items ``NAME=N``; ``bindings`` refuses items of another form."""
    pairs = [item.partition("=") for item in given]
    return {n: int(v) for n, _, v in pairs if v.isascii() and v.isdecimal()}


def options(planner: Choice, given: Sequence[str] | None = None) -> Options:
    """Return the options of a compilation: a planner, and the choices of items ``PATH=VALUE``.

    A value is written as in JSON; any other text is a name, or several
    with commas between.  Errors: ``unknown-option``,
    ``unknown-planner``, ``bad-option`` for an item of another form, and those of the values.
    """
    chosen: dict[str, Any] = {"memory.planner": planner}
    for item in given or ():
        path, equals, value = item.partition("=")
        if not equals:
            raise DidymaError("bad-option", f"--option {item}", got=item, want="PATH=VALUE")
        try:
            chosen[path] = json.loads(value)
        except ValueError:
            several = isinstance(USUAL.get(path), tuple)
            chosen[path] = tuple(filter(None, value.split(","))) if several else value
    made = Options().changed(chosen)
    planner_by_name(made.memory.planner)
    return made


def bindings(
    m: Module, given: Sequence[str], fixed: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return sizes for a module's symbols: those given, the others by ``fitting.default_sizes``.

    ``fixed`` are sizes that the module was imported for.

    Errors: ``bad-option`` for an item that is not ``NAME=N``, ``dim-out-of-range``.
    """
    bindable = control.input_symbols(m)
    env: dict[str, int] = {}
    for item in given:
        name, _, value = item.partition("=")
        if fixed and name in fixed:
            continue
        if not (value.isascii() and value.isdecimal()) or name not in bindable:
            known = ", ".join(v.name for v in m.dims if v.name in bindable)
            known = known or "none: no input has a symbolic size"
            raise DidymaError(
                "bad-option", f"--dim {item}", got=item, want=f"NAME=N with NAME of: {known}"
            )
        if env.setdefault(name, int(value)) != int(value):
            want = f"one value for {name}"
            raise DidymaError(
                "bad-option", f"--dim {item}", got=f"{name}={env[name]}, too", want=want
            )
    return fitting.default_sizes(m, env)


class Ended(Protocol):
    """What a campaign says of itself when it is over."""

    @property
    def seconds(self) -> float:
        """The seconds for which it ran."""
        ...

    @property
    def stopped_by(self) -> int:
        """The signal that ended it early; 0 for none."""
        ...

    @property
    def findings(self) -> Sequence[object]:
        """The disagreements that it found."""
        ...


def ended(
    result: Ended, record: Record, show: Callable[[Record], None], json: bool, ran: bool
) -> int:
    """Print the record of a campaign and return its exit code; ``ran``: whether it judged any case.

    ``show`` prints the record for people.  A campaign ended by a signal has the exit code of a
    process that the signal ends: 128 and more.
    """
    if result.stopped_by:
        name = signal.Signals(result.stopped_by).name
        print(f"interrupted by {name} after {result.seconds:.0f} s", file=sys.stderr)
    if json:
        print_json(record)
    else:
        show(record)
    if result.stopped_by:
        return 128 + result.stopped_by
    if result.findings:
        return DISAGREE
    return AGREE if ran else NOTHING_RAN
