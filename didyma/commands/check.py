"""``didyma check``: every level of one program on random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from didyma import rounds
from didyma.checking import ENGINES
from didyma.commands import common, inputs
from didyma.commands.judge import Task, Verdict, guarded, tell
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
    kept: Path | None = None,
    tries: int | None = None,
) -> int:
    """Judge a file and print the verdict of every level, and of peers on the same inputs.

    The round that disagreed, or else the first, is written to ``kept`` for ``replay``, with the
    values of its inputs.
    """
    wanted = engines or ENGINES
    rounds.whole("--seed", seed, 0)
    if tries is not None:
        rounds.whole("--tries", tries, 1)
    common.require(wanted)
    common.require_peers(peers)
    options = common.options(planner)
    m, fixed = read_fixed(file, common.sizes(given))
    chosen = inputs.read(m, values)
    told = inputs.sizes(m, chosen, common.sizes(given))
    given = [*given, *(f"{name}={n}" for name, n in told.items())]
    env = common.bindings(m, given, fixed)
    model = file.read_bytes() if peers and file.suffix == ".onnx" else None
    free = frozenset(env) - {item.partition("=")[0] for item in given}
    task = Task(
        m, env, seed, wanted, options, tuple(dict.fromkeys(peers)), model, free, chosen, tries
    )
    verdict = guarded(task, timeout)
    if kept is not None:
        save(kept, verdict.task or task, verdict)
    return tell(verdict, json)


def save(path: Path, task: Task, verdict: Verdict) -> None:
    """Write the round of a verdict that is to be looked at as a finding, with its values."""
    at = verdict.round or task.rounds[0]
    words = "\n".join(f.message for f in verdict.report.findings[:1])
    recorded = replay.Recorded(
        task.module,
        task.source.seeds(at),
        dict(task.env),
        task.engines,
        task.options,
        given=task.given,
        drawn=task.inputs(at),
    )
    replay.save(path, recorded, words)
