"""``didyma check``: judge every level of one program on random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from didyma import rounds
from didyma.checking import ENGINES
from didyma.codegen.options import Options
from didyma.codegen.runtime import disk
from didyma.commands import common, inputs
from didyma.commands.judge import Task, Verdict, guarded, print_verdict
from didyma.files import read_fixed
from didyma.fuzz import replay


def check(
    file: Path,
    engines: common.Engines,
    given: Sequence[str],
    seed: int,
    options: Options,
    timeout: float,
    json: bool,
    peers: Sequence[str] = (),
    values: Sequence[str] = (),
    save_to: Path | None = None,
    tries: int | None = None,
    *,
    ring: bool = True,
) -> int:
    """Judge a file and print the verdict of every level, and of peers on the same inputs.

    With ``ring`` it is judged in the ring as well.

    The round that disagreed, or else the first, is written to ``save_to`` for ``replay``, with the
    values of its inputs.
    """
    if save_to is not None:
        disk.must_take_file(save_to)
    task = prepared(
        file, engines or ENGINES, given, seed, options, values, tuple(dict.fromkeys(peers)), tries
    )
    task = replace(task, ring=ring)
    verdict = guarded(task, timeout)
    if save_to is not None:
        replay.save(save_to, recorded(verdict.task or task, verdict))
    return print_verdict(verdict, json)


def prepared(
    file: Path,
    engines: tuple[str, ...],
    given: Sequence[str],
    seed: int,
    options: Options,
    values: Sequence[str],
    peers: tuple[str, ...] = (),
    tries: int | None = None,
) -> Task:
    """Read a program and what the user says of it; the errors are those of bad input."""
    rounds.require_integer("--seed", seed, 0)
    if tries is not None:
        rounds.require_integer("--tries", tries, 1)
    common.require(engines, options)
    common.require_peers(peers)
    m, fixed = read_fixed(file, common.sizes(given))
    chosen = inputs.read(m, values)
    bound = inputs.sizes(m, chosen, common.sizes(given))
    given = [*given, *(f"{name}={n}" for name, n in bound.items())]
    env = common.bindings(m, given, fixed)
    model = file.read_bytes() if peers and file.suffix == ".onnx" else None
    free = frozenset(env) - {item.partition("=")[0] for item in given}
    return Task(m, env, seed, engines, options, peers, model, free, chosen, tries)


def recorded(task: Task, verdict: Verdict) -> replay.Recorded:
    """Return the round that a verdict points to as a finding, with the values of its inputs."""
    at = verdict.round or task.rounds[0]
    return replay.Recorded(
        task.module,
        task.source.seeds(at),
        dict(task.env),
        task.engines,
        task.options,
        given=task.given,
        drawn=task.inputs(at),
        finding=next(iter(verdict.report.findings), None),
    )
