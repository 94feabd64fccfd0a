"""A finding on disk: IR text, seeds and options in one file, replayed with one command."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from didyma.codegen.options import Options
from didyma.fuzz import disk, given
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module, show
from didyma.refimpl.ir.types import Tensor
from didyma.refimpl.verify import graph

_HEAD = "# didyma finding "


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that a judgement depends on."""

    module: Module
    seeds: tuple[int, ...]
    env: dict[str, int]
    engines: tuple[str, ...]
    options: Options
    given: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])  # not drawn by a seed


def save(path: Path, r: Recorded, message: str) -> Path:
    """Write a finding; the message stands in its head as comment lines."""
    head: dict[str, Any] = {
        "seeds": r.seeds,
        "dims": r.env,
        "engines": r.engines,
        "options": dataclasses.asdict(r.options),
    }
    if r.given:
        head["given"] = {name: given.record(t) for name, t in r.given.items()}
    lines = [_HEAD + json.dumps(head), *(f"# {line}" for line in message.splitlines())]
    return disk.write_text(path, "\n".join([*lines, show(r.module)]))


def load(path: Path) -> Recorded:
    """Read a finding back; DidymaError ``not-a-finding`` if the file is none."""
    text = disk.read_text(path)
    first, _, _ = text.partition("\n")
    if not first.startswith(_HEAD):
        raise DidymaError(
            "not-a-finding",
            str(path),
            got=first[:60] or "an empty line",
            want=f"a first line that starts with `{_HEAD.strip()}`",
            help="`didyma check` judges plain .dym and ONNX files",
        )
    m = parse_module(text, str(path))
    graph.verify(m)
    try:
        head = json.loads(first[len(_HEAD) :])
        recorded = Recorded(
            m,
            tuple(int(s) for s in head["seeds"]),
            {str(k): int(v) for k, v in head["dims"].items()},
            tuple(str(e) for e in head["engines"]),
            Options(**head["options"]),
            {str(k): given.recorded(v) for k, v in head.get("given", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise _broken(path, f"a broken head: {e}") from None
    if len(recorded.seeds) != len(m.entry.params):
        raise _broken(path, f"{len(recorded.seeds)} seeds for {len(m.entry.params)} inputs")
    told = set(control.told(m))
    if set(recorded.env) != told:
        raise _broken(path, f"sizes for {sorted(recorded.env)}, symbols {sorted(told)}")
    dims.check_ranges(recorded.env, m.dims)
    if got := given.misfit(m, recorded.env, recorded.given):
        raise _broken(path, got)
    return recorded


def _broken(path: Path, got: str) -> DidymaError:
    return DidymaError("not-a-finding", str(path), got=got, want="the head as it was written")
