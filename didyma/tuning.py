"""Tune the functions of a program: judge and time choices in child processes, keep the picks."""

from __future__ import annotations

import json
import pickle
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from didyma.candidates import Bars
from didyma.codegen import plugins
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, Lowered
from didyma.codegen.pipeline import compile as compile_module
from didyma.codegen.plugins import Called
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import targets
from didyma.codegen.schedule.dispatch import names
from didyma.codegen.schedule.recipes.point import parse_all, show_all
from didyma.codegen.schedule.steps.choose import by_function
from didyma.codegen.select.at_run import AtRun, sites
from didyma.codegen.select.cache import Cache, Pick, Verdict, default_path
from didyma.codegen.select.choice import Choice, first
from didyma.codegen.select.choosers import (
    Chooser,
    Entry,
    Heuristic,
    Pinned,
    Request,
    Tuned,
    choose_all,
    is_current,
    pinned,
    record,
    who,
)
from didyma.codegen.select.keys import hints
from didyma.codegen.select.selector import Isolate, Limits, Lost, Selection, Trial, select
from didyma.codegen.select.worker import Say, Task, clock_of
from didyma.fuzz.watchdog import Died, Raised, get_ready, guarded
from didyma.refimpl.errors import DidymaError, reason
from didyma.refimpl.ir.graph import COMPILER, Module, structural_hash
from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import PORTABLE

AT_RUN = "at-run"
WORDS = '"heuristic", "at-run", "cached" and "tuned"'
IMPORTS = ("didyma.tuning",)  # of the processes that judge and time
VARIANTS = 3  # of a kernel, where the run chooses and no option says how many


def isolated(f: Callable[..., Any], args: tuple[Any, ...], seconds: float, say: Say) -> Any:
    """Call a function in a child process, which a crash or a hang ends alone."""
    got = guarded(f, args, seconds, say)
    if isinstance(got, Died):
        return Lost(f"{got.kind}: {got.reason}")
    if isinstance(got, Raised):
        return Lost(" ".join(f"{type(got.error).__name__}: {got.error}".split()))
    return got


def target(engine: Engine) -> str:
    """Return what an engine runs on, as far as times depend on it."""
    device: Any = getattr(engine, "device", None)
    if device is not None and callable(getattr(device, "name", None)):
        return f"{engine.name}: {device.name()}"
    return f"{engine.name}: {platform.machine()} {_processor()}".strip()


def _processor() -> str:
    """Return the model of this machine's processor; Linux tells it in a file only."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    rows = (row.partition(":") for row in text.splitlines())
    return next((v.strip() for k, _, v in rows if k.strip() == "model name"), platform.processor())


def suited(options: Options, engine: Engine) -> Options:
    """Return options for the target that an engine prefers, where they are for the usual one.

    Results on engine ``cuda`` are never views.
    """
    best = targets(engine)[0]
    if engine.name == "cuda" and options.memory.views:
        options = options.changed({"memory.views": False})
    return options.changed({"target": best}) if options.device == PORTABLE != best else options


def chooser(given: str | Path | Mapping[str, Any] | Chooser, fused: Module) -> Chooser:
    """Return the chooser that a caller asks for.

    ``"heuristic"`` and ``"at-run"`` take what the model ranks first, ``"cached"`` what the cache
    has, and ``"tuned"`` measures what it lacks.  Any other string or path is a JSON file of
    choices, such as ``didyma explain`` writes, and a mapping is such a record, or the texts of
    choices by the names of functions.

    Errors: ``unreadable-file``, ``bad-choice``, ``newer-format``.
    """
    if given in ("heuristic", AT_RUN):
        return Heuristic()
    if given in ("cached", "tuned"):
        cache = Cache(default_path())
        return Tuned(cache, Tuner(fused, cache).measure if given == "tuned" else None)
    if isinstance(given, (str, Path)):
        return pinned(_read(Path(given)), str(given))
    if isinstance(given, Mapping):
        return pinned(given)
    if not callable(getattr(given, "choose", None)):
        raise DidymaError(
            "bad-choice",
            "choose",
            got=f"{given!r:.60}",
            want="a word, a JSON file of choices or a record of them",
            help=f"the words are {WORDS}",
        )
    return given


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as e:
        raise DidymaError(
            "unreadable-file", str(file), got=reason(e), want="a JSON file of choices",
            help=f"{WORDS} are the other ways to choose",
        ) from None  # fmt: skip


def chosen(
    m: Module,
    options: Options,
    engine: Engine,
    given: str | Path | Mapping[str, Any] | Chooser,
) -> Options:
    """Return the options that make a module with the choices that a chooser picks.

    ``"at-run"`` gives the kernels variants.  With variants, functions of a record that ran with
    several choices keep them all.  Errors as of ``chooser`` and ``choose_all``.
    """
    if given == AT_RUN:
        usual = options.kernels.variants
        return options.changed({"kernels.variants": VARIANTS if usual == 1 else usual})
    if given == "heuristic":
        return options
    if given == "tuned":
        get_ready(IMPORTS)
    lowered = compile_module(m, options, until="lower")
    picker = chooser(given, lowered.fused)
    functions = {f.name: f for f in lowered.fused.functions}
    loops = _without_steps(lowered, options, picker)
    choices = choose_all(loops, options, picker, engine.name, target(engine), functions=functions)
    several = options.kernels.variants > 1
    open_ = _open(picker, loops) if several else frozenset[str]()
    text = show_all({name: c.points for name, c in choices.items() if name not in open_})
    return options.changed({"kernels.choices": text, "graph.routines": _routines(options, choices)})


def _stepped(lowered: Lowered, options: Options) -> frozenset[str]:
    """Return the functions for which the options have schedules of steps."""
    if not options.kernels.schedules:
        return frozenset()
    hashes = {name: structural_hash(lowered.fused.function(name)) for name in lowered.loops}
    return frozenset(by_function(options.kernels.schedules, hashes))


def _without_steps(lowered: Lowered, options: Options, picker: Chooser) -> dict[str, PrimFunc]:
    """Return the functions that need a choice: those without a schedule of steps.

    DidymaError ``bad-choice`` for a record that has a choice for one that has such a schedule.
    """
    taken = _stepped(lowered, options)
    if isinstance(picker, Pinned) and (both := sorted(taken & picker.entries.keys())):
        raise DidymaError(
            "bad-choice", f"{picker.where}: {both[0]}",
            got=f"{picker.entries[both[0]].choice}, and a schedule of steps",
            want="one of them for a function",
        )  # fmt: skip
    return {name: loop for name, loop in lowered.loops.items() if name not in taken}


def _routines(options: Options, choices: Mapping[str, Choice]) -> tuple[str, ...]:
    """Return the routines of options, and those that are the choice of a function."""
    picked_ = {p.recipe for c in choices.values() for p in c.points} - {*names()}
    if not picked_:  # without a look at entry points, which takes milliseconds
        return options.graph.routines
    known = (*options.graph.routines, *plugins.names(plugins.ROUTINES))
    own = {*options.graph.routines}
    return tuple(dict.fromkeys(r for r in known if r in picked_ | own))


def pickers(
    m: Module,
    options: Options,
    engine: Engine,
    given: str | Path | Mapping[str, Any] | Chooser,
) -> dict[str, str]:
    """Return who picks the choice of each function, as of ``choosers.who``; nothing is timed."""
    lowered = compile_module(m, options, until="lower")
    picker = chooser(given, lowered.fused)
    requests = (
        Request(
            name, loop, options, engine.name, target(engine), hints(loop),
            lowered.fused.function(name),
        )
        for name, loop in lowered.loops.items()
    )  # fmt: skip
    return {r.name: who(picker, r) for r in requests}


def _open(picker: Chooser, loops: Mapping[str, PrimFunc]) -> frozenset[str]:
    """Return the functions whose choice is left to the run, where kernels have variants."""
    if not isinstance(picker, Pinned):
        return frozenset()
    return frozenset(name for name in loops if (x := picker.entries.get(name)) is None or x.buckets)


def at_run(
    c: Compiled,
    engine: Engine,
    options: Options,
    given: str | Path | Mapping[str, Any] | Chooser = "heuristic",
    **how: Any,
) -> AtRun | None:
    """Return what chooses among the variants of a compiled module; None where it has none.

    It takes the picks of a record, and else those of the cache.  ``how`` are fields of ``AtRun``
    that take the place of the usual ones.  Errors as of ``chooser``, and ``unknown-variant``.
    """
    found = sites(c.program, c.text, c.loops, c.variants)
    if not (found or options.kernels.force):
        return None
    picker = chooser(given, c.fused)
    entries: Mapping[str, Entry] = picker.entries if isinstance(picker, Pinned) else {}
    usual: dict[str, Any] = {
        "clock": clock_of(engine.name),
        "cache": Cache(default_path()),
        "recorded": {(f, at): choice for f, e in entries.items() for at, choice in e.buckets},
    }
    return AtRun(found, options, target(engine), **(usual | how))


def require_known(c: Compiled, options: Options) -> None:
    """Raise ``bad-choice`` where ``kernels.choices`` names a function that a program has not."""
    known = [f.name for f in c.fused.functions[:-1]]
    for name in parse_all(options.kernels.choices):
        if name not in known:
            raise DidymaError(
                "bad-choice", f"kernels.choices: {name}", got=name,
                want=f"one of {', '.join(known) or 'none: no function is computed'}",
            )  # fmt: skip


def picked(c: Compiled, options: Options, run: AtRun | None = None) -> dict[str, Any]:
    """Return the record of the choices that a compile with these options has taken.

    Of functions that have run with variants, it is what the run has picked.  Those of which a
    schedule of steps, or a text that a caller gave, made the kernels have no choice.
    """
    given = parse_all(options.kernels.choices)
    stepped = _stepped(c, options)
    rows = {
        name: Choice(given[name]) if name in given else first(loop, options, c.fused.function(name))
        for name, loop in c.loops.items()
        if name not in stepped
    }
    rows = {name: choice for name, choice in rows.items() if not _is_given(c.kernels[name], choice)}
    found = run.choices() if run is not None else {}
    several = {name: at for name, at in found.items() if len({*at.values()}) > 1}
    latest = {name: [*at.values()][-1] for name, at in found.items()}
    made = record(c.loops, rows | latest, several, options.graph.parts)
    taken = (f.name for f in c.fused.functions if COMPILER in f.attr and f.name in given)
    made["choices"] |= {name: {"choice": str(Choice(given[name]))} for name in taken}
    return made


def _is_given(kernels: Sequence[Kernel], choice: Choice) -> bool:
    """Return whether kernels are of a text, although the choice of their function is a recipe."""
    texts = any(isinstance(k, ClaimedKernel) for k in kernels)
    return texts and all(p.recipe in names() for p in choice.points)


def _portable(options: Options) -> tuple[Called, ...]:
    """Return the parts that calls registered here, as far as they can go to a child process.

    DidymaError ``bad-part`` for one that cannot go, but that the options name.
    """
    given = (*options.kernels.recipes, *options.kernels.codegens, *options.graph.routines)
    named = {x for x in given if isinstance(x, str)}
    found = plugins.called(plugins.GROUPS_OF_KERNELS)
    for group, name, part in found:
        if name in named and not _pickles(part):
            raise DidymaError(
                "bad-part", f"{group}: {name}", got="a part that pickle does not take",
                want="functions that a module defines, which go to the processes that tune",
                help="register it by an entry point, or move its functions to a module",
            )  # fmt: skip
    return tuple(x for x in found if _pickles(x[2]))


def _pickles(part: object) -> bool:
    try:
        pickle.dumps(part)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Tuner:
    """Measures choices of the functions of a module, on one engine, and keeps the picks.

    ``listen`` is called with the name of a function, the number of candidates judged, and the last
    of them.
    """

    fused: Module
    cache: Cache
    limits: Limits = field(default_factory=Limits)
    listen: Callable[[str, int, Trial], None] = lambda name, count, trial: None
    isolate: Isolate = isolated

    def measure(self, request: Request) -> Pick:
        """Return the pick for a request, which the cache keeps from now on."""
        return self.tune(request)[0]

    def tune(self, request: Request) -> tuple[Pick, Selection]:
        """Select a choice; return what the cache keeps, and all trials.

        If another process was first, the cache keeps that one's pick.  DidymaError
        ``no-valid-choices``, and as the cache.
        """
        key = request.key
        seed = secrets.randbits(32)
        judge = Bars(self.fused, request.name, request.loop, request.env, seed)
        task = Task(
            request.loop, request.options, request.engine, request.env, seed, request.source,
            _portable(request.options),
        )  # fmt: skip
        known = {t: v.reason for t, v in self.cache.verdicts(key.digest).items()}
        count = 0

        def heard(trial: Trial) -> None:
            nonlocal count
            count += 1
            if not trial.lost:
                self.cache.judged(key.digest, Verdict(trial.text, trial.choice, trial.reason))
            self.listen(request.name, count, trial)

        found = select(task, judge.compared, self.isolate, self.limits, known, heard, judge.checked)
        pick = self._pick(request, found)
        stale = self.cache.get(key.digest)
        if stale is not None and not is_current(stale, request):
            self.cache.replace([pick])
        return self.cache.add(pick), found

    def _pick(self, request: Request, found: Selection) -> Pick:
        key = request.key
        assert found.picked.seconds is not None
        assert found.usual.seconds is not None
        return Pick(
            key.digest, found.picked.choice, found.picked.text, key.function, request.target,
            key.text, found.picked.seconds, found.usual.seconds,
        )  # fmt: skip
