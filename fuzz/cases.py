"""Read cases of domains other than graphs from files, and judge them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from didyma.codegen.runtime import disk
from didyma.fuzz import saved, worker
from didyma.fuzz.allocator import written
from didyma.fuzz.domains.domain import Domain, Outcome
from didyma.fuzz.domains.emission import Emission
from didyma.fuzz.domains.plans import Plans
from didyma.fuzz.emission.kernels import Case as Kernel
from didyma.fuzz.executor import WatchedExecutor, WorkerDiedError
from didyma.refimpl.ir.text import parse_loop


@dataclass(frozen=True, slots=True)
class Saved:
    """A case of a domain that was read from a file."""

    domain: Domain[Any]
    case: Any


def load(path: Path, engines: Sequence[str] = ()) -> Saved:
    """Read a case, to be judged on its own engines or on those given.

    Errors: ``not-a-finding``, ``newer-format``, ``unreadable-file``, and those of the parser.
    """
    content = disk.read_text(path)
    facts = saved.facts(path, content)
    try:
        match facts["domain"]:
            case "emission":
                return _kernel(path, content, facts, engines)
            case "planners" if "written" in facts:
                return Saved(Plans(), written.of(content.partition("\n")[2], facts))
            case "planners":
                return Saved(
                    Plans(tuple(map(str, facts["kinds"])), run_every=1), int(facts["seed"])
                )
            case other:
                raise saved.broken(path, f"a case of the domain {other}")
    except (KeyError, TypeError, ValueError) as e:
        raise saved.broken(path, f"a broken head: {type(e).__name__}: {e}") from None


def _kernel(path: Path, content: str, facts: Mapping[str, Any], engines: Sequence[str]) -> Saved:
    kernels = parse_loop(content, str(path))
    if len(kernels) != 1:
        raise saved.broken(path, f"{len(kernels)} kernels")
    env = tuple((str(k), int(v)) for k, v in facts["dims"].items())
    case = Kernel(kernels[0], env, int(facts["seed"]))
    return Saved(Emission(tuple(engines or map(str, facts["engines"])), every=True), case)


def judged(many: Mapping[Path, Saved], hang_seconds: float) -> Mapping[Path, Outcome]:
    """Judge cases in a process that may crash or hang; EngineMissing and ``unknown-engine``."""
    executor = WatchedExecutor(1, hang_seconds)
    try:
        return {path: _outcome(executor, s) for path, s in many.items()}
    finally:
        executor.shutdown(cancel_futures=True)


def _outcome(executor: Executor, s: Saved) -> Outcome:
    try:
        return executor.submit(worker.judge_one, worker.packed(s.domain), s.case).result()
    except WorkerDiedError as e:
        return Outcome((s.domain.failure(s.case, e.kind, e.reason),))
