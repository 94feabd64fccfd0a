"""Words that a shell completes: names of ops, functions, engines, options, planners and so on.

They are kept in ``words.json``, written by ``python -m didyma.words``, since the tables that they
come from take seconds to import.  What installed packages register is added when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import didyma

FILE = "words.json"


def words(kind: str) -> list[str]:
    """Return names of a kind that ``tables`` lists."""
    from didyma.codegen import plugins

    kept: dict[str, list[str]] = json.loads((files(didyma) / FILE).read_text(encoding="utf-8"))
    groups = {
        "engines": plugins.ENGINES,
        "peers": plugins.PEERS,
        "planners": plugins.PLANNERS,
    }
    more = plugins.names(groups[kind]) if kind in groups else ()
    return sorted({*kept[kind], *more})


def tables() -> Mapping[str, Sequence[str]]:
    """Return the names of each kind, from the tables themselves."""
    from didyma import codes
    from didyma.codegen.memory.planners import PLANNERS
    from didyma.codegen.options import USUAL
    from didyma.codegen.runtime import registry
    from didyma.functions import composed
    from didyma.fuzz.domains.registry import DOMAINS
    from didyma.fuzz.peers.registry import NAMES as PEERS
    from didyma.refimpl.ops import OPS

    return {
        "codes": codes.known(),
        "domains": sorted(DOMAINS),
        "engines": sorted(registry.NAMES),
        "ops": sorted({*OPS, *composed.names()}),
        "options": sorted(USUAL),
        "peers": sorted(PEERS),
        "planners": sorted(PLANNERS),
    }


def text() -> str:
    """Return the contents of the file."""
    return json.dumps(tables(), indent=1) + "\n"


if __name__ == "__main__":
    Path(str(files(didyma) / FILE)).write_text(text(), encoding="utf-8")
