"""A finding on disk: IR text, inputs, engines and options in one file, replayed with one command.

The first line is a comment that holds all but the module as JSON; comments for people follow, and
then the module.  ``format`` counts the changes that older versions cannot read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from didyma.codegen.options import USUAL, Options
from didyma.codegen.runtime import disk
from didyma.fuzz import alone, calls_again, given, layouts, saved, shown
from didyma.fuzz.graphs import Case
from didyma.oracle.report import Finding
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module, show
from didyma.refimpl.ir.types import Tensor
from didyma.refimpl.verify import graph
from didyma.refimpl.version import VERSION

FORMAT = 2  # 1 held seeds only, and no values but those given

_HEAD = "# didyma finding "


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that a judgement depends on, and where it comes from.

    ``given`` are values that somebody chose, ``drawn`` those of the other inputs: kept, so that a
    replay is the same when seeds draw other values.  Findings of format 1 have none drawn.
    ``campaign_seed`` is the seed of the campaign that found it, ``version`` and ``date`` (UTC) say
    what wrote it and when.  ``finding`` is what was found, and ``traits`` what findings of one
    cause have in common with it; ``why`` says why a corpus holds the case, and ``covers`` what it
    exercises where nothing was found.  Two records that differ in these alone are equal.
    """

    module: Module
    seeds: tuple[int, ...]
    env: dict[str, int]
    engines: tuple[str, ...]
    options: Options
    given: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    drawn: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor], compare=False)
    campaign_seed: int | None = field(default=None, compare=False)
    version: str = field(default="", compare=False)
    date: str = field(default="", compare=False)
    finding: Finding | None = field(default=None, compare=False)
    traits: frozenset[str] = field(default=frozenset(), compare=False)
    why: str = field(default="", compare=False)
    covers: str = field(default="", compare=False)

    @property
    def values(self) -> Mapping[str, Tensor]:
        """The values of inputs that no seed needs to draw."""
        return {**self.drawn, **self.given}

    @property
    def case(self) -> Case:
        """The finding as a case of the domain of graphs, all of its inputs given."""
        level = "" if self.finding is None else self.finding.level
        changes = ((k, v) for k, v in self.options.choices().items() if v != USUAL[k])
        return Case(
            self.module, tuple(self.env.items()), self.seeds, tuple(changes),
            tuple(self.values.items()), self.finding is not None and self.finding.kind == "ring",
            level == calls_again.NAME, level == layouts.NAME, alone=level == alone.NAME,
        )  # fmt: skip


def save(path: Path, r: Recorded, message: str = "") -> Path:
    """Write a finding; DidymaError ``unwritable``."""
    return disk.write_file(path, text(r, message))


def text(r: Recorded, message: str = "") -> str:
    """Return a finding as text; comment lines of its head say for people what it is.

    They are why a corpus holds it, what was found, the message, and the inputs.
    """
    arrays = given.inputs(r.module, r.env, r.seeds, r.values)
    inputs = {p.name: Tensor.of(a) for p, a in zip(r.module.entry.params, arrays, strict=True)}
    drawn = {name: t for name, t in inputs.items() if name not in r.given}
    head: dict[str, Any] = {
        "format": FORMAT,
        "didyma": r.version or VERSION,
        "date": r.date or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seeds": r.seeds,
        "dims": r.env,
        "engines": r.engines,
        "options": r.options.record(),
    }
    if r.campaign_seed is not None:
        head["campaign_seed"] = r.campaign_seed
    if r.finding is not None:
        head["finding"] = asdict(r.finding)
        head["traits"] = sorted(r.traits)
    head |= {k: v for k, v in (("why", r.why), ("covers", r.covers)) if v}
    if r.given:
        head["given"] = {name: given.record(t) for name, t in r.given.items()}
    head["drawn"] = {name: given.record(t) for name, t in drawn.items()}
    values = [f"%{name}: {shown.value(t)}" for name, t in inputs.items()]
    facts = [f"why: {r.why}"] if r.why else []
    facts += [f"covers: {r.covers}"] if r.covers else []
    if f := r.finding:
        facts.append(f"{'once ' * bool(r.why)}{f.level} ({f.kind}) in {f.where}: {f.message}")
    lines = "\n".join([*facts, message, *values]).splitlines()
    comments = [f"# {line}" for line in lines if line]
    return "\n".join([_HEAD + json.dumps(head), *comments, show(r.module)])


def load(path: Path) -> Recorded:
    """Read a finding back, `-` from stdin.

    Errors: ``not-a-finding`` if the file is none, ``newer-format`` if a later version wrote it in
    another format; ``unreadable-file``, and those of the parser and the verifier.
    """
    content = disk.read_text(path)
    first, _, _ = content.partition("\n")
    if not first.startswith(_HEAD):
        raise DidymaError(
            "not-a-finding",
            str(path),
            got=first[:60] or "an empty line",
            want=f"a first line that starts with `{_HEAD.strip()}`",
            help="`didyma check` judges plain .dym and ONNX files",
        )
    head = saved.parse_head(path, first[len(_HEAD) :], FORMAT)
    m = parse_module(content, str(path))
    graph.verify(m)
    try:
        recorded = Recorded(
            m,
            tuple(int(s) for s in head["seeds"]),
            {str(k): int(v) for k, v in head["dims"].items()},
            tuple(str(e) for e in head["engines"]),
            Options.recorded(head["options"]),
            {str(k): given.recorded(v) for k, v in head.get("given", {}).items()},
            {str(k): given.recorded(v) for k, v in head.get("drawn", {}).items()},
            None if "campaign_seed" not in head else int(head["campaign_seed"]),
            str(head.get("didyma", "")),
            str(head.get("date", "")),
            Finding(**head["finding"]) if "finding" in head else None,
            frozenset(map(str, head.get("traits", ()))),
            str(head.get("why", "")),
            str(head.get("covers", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise saved.broken(path, f"a broken head: {e}") from None
    if len(recorded.seeds) != len(m.entry.params):
        raise saved.broken(path, f"{len(recorded.seeds)} seeds for {len(m.entry.params)} inputs")
    input_symbols = set(control.input_symbols(m))
    if set(recorded.env) != input_symbols:
        raise saved.broken(
            path, f"sizes for {sorted(recorded.env)}, symbols {sorted(input_symbols)}"
        )
    dims.check_ranges(recorded.env, m.dims)
    if got := given.misfit(m, recorded.env, recorded.values):
        raise saved.broken(path, got)
    return recorded


def is_finding(path: Path) -> bool:
    """Return whether a file begins as findings do; DidymaError ``unreadable-file``."""
    return disk.read_text(path).startswith(_HEAD)
