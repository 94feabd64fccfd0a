"""What a run says: one record of JSON types, lines for people, and the page docs/mutants.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

from tests.bench.page import commit
from tests.mutants.mutant import GROUPS, ROOT
from tests.mutants.target import Result

PAGE = ROOT / "docs" / "mutants.md"


def summary(results: Sequence[Result], not_run: int, stale: Sequence[str]) -> dict[str, Any]:
    """Return the counts, the median of the seconds to a kill, and the survivors."""
    killed = [r for r in results if r.outcome == "killed"]
    left = [r for r in results if r.outcome != "killed"]
    counted = len(results) - sum(r.equivalent for r in left)
    return {
        "killed": len(killed),
        "total": len(results),
        "equivalent": sum(r.equivalent for r in left),
        "kill_rate": round(len(killed) / counted, 4) if counted else None,
        "median_seconds": round(median(r.seconds for r in killed), 3) if killed else None,
        "median_programs": median(r.programs for r in killed) if killed else None,
        "not_run": not_run,
        "by": dict(Counter(r.check for r in killed).most_common()),
        "how": dict(Counter(r.how for r in killed).most_common()),
        "groups": {g: _group(rs) for g, rs in _groups(results)},
        "stale_equivalents": list(stale),
        "survivors": [_survivor(r) for r in left],
    }


def _groups(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    for g in (*GROUPS, "named"):
        if found := [r for r in results if r.group == g]:
            yield g, found


def _group(results: Sequence[Result]) -> dict[str, Any]:
    killed = [r for r in results if r.outcome == "killed"]
    return {
        "killed": len(killed),
        "total": len(results),
        "equivalent": sum(r.equivalent for r in results),
        "median_seconds": round(median(r.seconds for r in killed), 3) if killed else None,
    }


def _survivor(r: Result) -> dict[str, Any]:
    words = ("id", "group", "name", "file", "line", "diff", "outcome", "reached", "programs",
             "seconds", "effect", "equivalent", "reason")  # fmt: skip
    return {w: getattr(r, w) for w in words}


def line(r: Result) -> str:
    """Say what came of a mutant, in a line."""
    if r.outcome == "killed":
        by = f"{r.check}, {r.how}" + (f" at {r.level}" if r.level not in ("", r.check) else "")
        return f"killed   {r.seconds:6.2f} s {r.programs:5} programs  {r.name}: {by}"
    what = "equal" if r.equivalent else "SURVIVED" if r.outcome == "survived" else r.outcome.upper()
    why = r.reason or r.effect
    return (
        f"{what:10}{r.seconds:5.2f} s {r.programs:5} programs  {r.name}{f': {why}' if why else ''}"
    )


def brief(s: dict[str, Any]) -> str:
    """Say in a few lines what came of a run."""
    lines = [f"{s['killed']} of {s['total']} mutants killed, {s['equivalent']} equivalent"]
    if s["kill_rate"] is not None:
        lines[0] += f": {100 * s['kill_rate']:.1f} % of the others"
    if s["median_seconds"] is not None:
        lines[0] += f"; median {s['median_seconds']:.2f} s, {s['median_programs']:g} programs"
    if s["not_run"]:
        lines.append(f"not run for want of time: {s['not_run']}")
    lines += [f"equivalent.toml: nothing matches {x}" for x in s["stale_equivalents"]]
    wrong = s.get("wrong_without_mutants", ())
    lines += [f"wrong without a mutant, so not judged: {x}" for x in wrong]
    return "\n".join(lines)


def page(results: Sequence[Result], command: str) -> str:
    """Return the table of a run, by group, and its survivors."""
    s = summary(results, 0, ())
    rows = [
        f"`{command}`", "",
        f"On {datetime.now(UTC):%Y-%m-%d}, of commit `{commit()}`:", "",
        "| group | mutants | killed | equivalent | of the others | median |",
        "|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    every = {**s["groups"], "all": s}
    for name, g in every.items():
        counted = g["total"] - g["equivalent"]
        share = f"{100 * g['killed'] / counted:.1f} %" if counted else ""
        seconds = "" if g["median_seconds"] is None else f"{g['median_seconds']:.2f} s"
        rows.append(
            f"| {name} | {g['total']} | {g['killed']} | {g['equivalent']} | {share} | {seconds} |"
        )
    checks = ", ".join(f"{n} by {check}" for check, n in s["by"].items())
    ways = ", ".join(f"{n} by {how}" for how, n in s["how"].items())
    rows += ["", f"Killed: {checks}. By what: {ways}.", "", "Survivors:", ""]
    for r in s["survivors"]:
        change = [x for x in r["diff"].splitlines()[2:] if not x.startswith("@@")]
        why = r["reason"] or r["effect"] or r["outcome"]
        kind = "equivalent" if r["equivalent"] else "not killed"
        rows += [f"`{r['file']}`, {kind}: {why}", "", "```text", *change, "```", ""]
    return "\n".join(rows)


def write(results: Sequence[Result], command: str) -> None:
    """Put the table of a run on the page, above those of earlier runs."""
    mark = "<!-- runs, the latest first -->\n"
    before, found, after = PAGE.read_text(encoding="utf-8").partition(mark)
    assert found, f"{PAGE.name} has no mark for runs"
    PAGE.write_text(f"{before}{mark}\n{page(results, command)}{after}", encoding="utf-8")
