"""``didyma check``: every level of one program on random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from didyma.commands import common, inputs
from didyma.commands.judge import Task, guarded, tell
from didyma.files import read_fixed
from didyma.fuzz import replay


def check(
    file: Path,
    engines: common.Engines,
    given: Sequence[str],
    seed: int,
    planner: str,
    timeout: float,
    json: bool,
    peers: Sequence[str] = (),
    values: Sequence[str] = (),
    save: Path | None = None,
) -> int:
    """Judge a file and print the verdict of every level, and of peers on the same inputs.

    What was judged is written to ``save`` for ``replay``.
    """
    wanted = engines or ("host",)
    common.require(wanted)
    common.require_peers(peers)
    options = common.options(planner)
    m, fixed = read_fixed(file, common.sizes(given))
    chosen = inputs.read(m, values)
    told = inputs.sizes(m, chosen, common.sizes(given))
    given = [*given, *(f"{name}={n}" for name, n in told.items())]
    env = common.bindings(m, given, fixed)
    seeds = tuple(seed * 1000 + i for i in range(len(m.entry.params)))
    model = file.read_bytes() if peers and file.suffix == ".onnx" else None
    free = frozenset(env) - {item.partition("=")[0] for item in given}
    task = Task(m, env, seeds, wanted, options, tuple(peers), model, free, chosen)
    verdict = guarded(task, timeout)
    if save is not None:
        env = dict(verdict.memory.get("dims", env))
        words = "\n".join(f.message for f in verdict.report.findings[:1])
        chosen |= dict(verdict.given)
        replay.save(save, replay.Recorded(m, seeds, env, wanted, options, chosen), words)
    return tell(verdict, json)
