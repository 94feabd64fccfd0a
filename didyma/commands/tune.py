"""``didyma tune``: measure the schedules of a program's functions, and keep the fastest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from didyma import splits, tuning
from didyma.codegen.runtime import disk
from didyma.codegen.runtime.registry import engine as engine_by_name
from didyma.codegen.select import log
from didyma.codegen.select.cache import Cache, Pick, default_path, exported, imported
from didyma.codegen.select.choosers import Request, Tuned
from didyma.codegen.select.selector import Limits, Trial
from didyma.commands import common
from didyma.files import read_fixed
from didyma.fuzz.watchdog import get_ready
from didyma.refimpl.cores import cores
from didyma.refimpl.errors import DidymaError
from didyma.show import tune as show


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a call of the command asks for; every field is an option of it."""

    file: Path | None
    engine: str
    sizes: Sequence[str]
    options: Sequence[str]
    seconds: float
    timeout: float
    rest: float
    jobs: int | None
    cache: Path | None
    export: Path | None
    imports: Path | None
    clear: bool
    json: bool


def tune(w: Wanted) -> int:
    """Clear the cache, import picks, tune a file and export picks, as far as each is asked for."""
    if not (w.file or w.export or w.imports or w.clear):
        raise DidymaError(
            "bad-option", "didyma tune", got="nothing to do",
            want="a file, --import, --export or --clear",
        )  # fmt: skip
    if w.export is not None:
        disk.must_take_file(w.export)
    cache = Cache(w.cache or default_path())
    document: dict[str, Any] = {"cache": os.fspath(cache.path)}
    if w.clear:
        document["cleared"] = cache.clear()
    if w.imports is not None:
        document["imported"] = _import(cache, w.imports)
    picks = cache.picks() if w.file is None else []
    if w.file is not None:
        rows: list[dict[str, Any]] = []
        document["functions"] = rows
        for request, row, pick in _tuned(w, cache):
            rows.append(row)
            picks.append(pick)
            if not w.json:
                show.table(row)
            log.append(_log(cache), {"engine": request.engine, "target": request.target, **row})
    if w.export is not None:
        disk.write_file(w.export, exported(picks))
        document["exported"] = len(picks)
    if w.json:
        common.print_json(document)
    else:
        _print(document)
    return common.NOTHING_RAN if document.get("functions") == [] else common.AGREE


def _log(cache: Cache) -> Path:
    return cache.path.with_suffix(".jsonl")


def _print(document: dict[str, Any]) -> None:
    for word in ("cleared", "imported", "exported"):
        if word in document:
            count = document[word]
            print(f"{word} {count} pick{'' if count == 1 else 's'}")


def _import(cache: Cache, file: Path) -> int:
    picks = imported(disk.read_text(file), str(file))
    cache.replace(picks)
    return len(picks)


def _tuned(w: Wanted, cache: Cache) -> Iterator[tuple[Request, dict[str, Any], Pick]]:
    """Yield each function of the file, and of its other splits, with its record and its pick."""
    assert w.file is not None
    get_ready(tuning.IMPORTS)
    m, _ = read_fixed(w.file, common.sizes(w.sizes))
    common.require([w.engine])
    engine = engine_by_name(w.engine)
    options = tuning.suited(common.options("didyma", w.options), engine)
    env = common.bindings(m, w.sizes)
    done = set[str]()
    limits = Limits(w.seconds, w.timeout, jobs=w.jobs or cores(), rest=w.rest)
    known = Tuned(cache)
    for split in splits.splits(m, options, engine, env):
        tuner = tuning.Tuner(split.lowered.fused, cache, limits, _progress)
        for digest, request in split.requests.items():
            if digest in done:
                continue
            done.add(digest)
            pick, found = known.kept(request), None
            if pick is None:
                pick, found = tuner.tune(request)
            yield request, show.record(request, pick, found), pick


def _progress(name: str, count: int, trial: Trial) -> None:
    """Say on stderr how far the judging of a function is."""
    verdict = trial.reason or "right"
    print(f"{name}: judged {count}: {trial.choice}: {verdict}", file=sys.stderr, flush=True)
