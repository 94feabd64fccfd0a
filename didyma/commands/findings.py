"""``didyma findings``: what campaigns found, grouped by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from didyma.commands import common
from didyma.commands.fuzz import bar
from didyma.commands.replay import files
from didyma.fuzz import again, replay
from didyma.fuzz.domains.domain import Outcome
from didyma.fuzz.recorded_groups import Found, causes, record
from didyma.fuzz.replay import Recorded
from didyma.fuzz.saved import is_case
from didyma.refimpl.cores import cores
from didyma.show import findings as show


def findings(
    paths: Sequence[Path],
    since: Sequence[Path],
    judge: bool,
    engines: common.Engines,
    jobs: int | None,
    timeout: float,
    json: bool,
) -> int:
    """Group the findings of files and folders by cause.

    Only findings of graphs are grouped.

    With ``judge`` all are judged again; without, those of files that do not say what was found.
    Exit code: 1 if a finding fails, as far as is known, and is new where ``since`` names earlier
    ones; 5 if there are no findings, else 0.
    """
    here = {path: replay.load(path) for path in files(paths) if not is_case(path)}
    graphs = (path for path in files(since) if not is_case(path))
    earlier = {path: replay.load(path) for path in graphs if path not in here}
    wanted = [p for p, r in (here | earlier).items() if (judge and p in here) or r.finding is None]
    outcomes = _judged({p: (here | earlier)[p] for p in wanted}, engines, jobs, timeout)
    found = [Found(p, r, outcomes.get(p)) for p, r in here.items()]
    found += [Found(p, r, outcomes.get(p), old=True) for p, r in earlier.items()]
    groups = causes(found)
    unknown = [f.path for f in found if not f.old and f.example() is None]
    document = record(groups, unknown)
    if json:
        common.print_json(document)
    else:
        show.findings(document, since=bool(since), judged=judge)
    if any(c.fails and (c.new or not since) for c in groups):
        return common.DISAGREE
    return common.AGREE if here else common.NOTHING_RAN


def _judged(
    recorded: Mapping[Path, Recorded], engines: common.Engines, jobs: int | None, timeout: float
) -> dict[Path, Outcome]:
    """Judge findings again behind a progress bar."""
    if not recorded:
        return {}
    for r in recorded.values():
        common.require(engines or r.engines)
    done = 0
    with bar(float(len(recorded))) as shown:

        def progress() -> None:
            nonlocal done
            done += 1
            shown(done, f"{done} of {len(recorded)} findings")

        rows = list(recorded.values())
        outcomes = again.judged(rows, engines, jobs or cores(), timeout, progress)
    return dict(zip(recorded, outcomes, strict=True))
