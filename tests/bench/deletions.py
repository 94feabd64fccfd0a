"""What templates of kernels wait for, deleted line by line: ``python -m tests.bench.deletions``.

Each wait, fence, barrier and arrival of a kernel's text is deleted, and the kernel judged on engine
``simt``, then on ``ptx``.  What neither finds is printed, with its reason where one is known, of
``REASONS``.  An argument names cases by a part, and ``--jobs`` says how many processes share them.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

import didyma as dd
from didyma.candidates import Bars
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select.choice import Candidate, Choice, build
from didyma.codegen.templates.products import product
from didyma.refimpl.ir.types import Array
from didyma.tracer.tracing import Program
from tests.codegen.templates import (
    test_attention,
    test_attention_mma,
    test_attention_tma,
    test_attention_wgmma,
    test_cluster,
    test_fma,
    test_gemm,
    test_mma,
    test_tma,
    test_weighted_mma,
    test_weighted_tma,
    test_wgmma,
    test_windows,
)
from tests.codegen.templates.judging import Suits, request

_ORDERS = re.compile(
    r"^\s*(?:__syncthreads|cp_async_(?:wait|commit)|tma_(?:wait|commit)|wgmma_(?:fence|wait|commit)|proxy_fence|"
    r"mbarrier_(?:arrive|expect|wait|init)|named_barrier|cluster_barrier)\(.*\);$"
)
_BARRIER = "__syncthreads();"
_NO_TILE = "each tile sees some columns here, so nothing comes by"
# Why the loss of a line is not found: by the case, the line's text, and which of those it is.
REASONS = {
    ("tiled_attention", _BARRIER, 3): "no copy is asynchronous, so the barrier before will do",
    ("tma_attention", "mbarrier_wait(&turn_of[mine], waits);", 1): "turns are for speed alone",
    ("tma_attention", "wgmma_fence();", 3): "the product before has a fence, and sets no register",
    ("wgmma_attention", _BARRIER, 5): "a block that sees keys has had a barrier since its marks",
    ("tma_weighted twice", "mbarrier_arrive(&others[1]);", 3): _NO_TILE,
    ("tma_weighted twice", "mbarrier_arrive(&rows_empty[slot]);", 2): _NO_TILE,
    ("tma_attention", "named_barrier(15, 64);", 2): "the loop over keys has had one since it told",
    **{("tma_weighted twice", "mbarrier_wait(&others[1], room);", n):
       "a tile has more steps than stages, so all have read its number" for n in (1, 2)},
    **{(case, "mbarrier_wait(&rows_empty[slot], slot_phase);", 1):
       "a tile's number waits until all have read the rows of the tile before the last"
       for case in ("tma_weighted", "tma_weighted twice")},
    **{(case, f"mbarrier_init(&others[{n}], {count});", 1): "nothing waits for it there"
       for case in ("tma_weighted", "tma_weighted twice")
       for n, count in ((2, 1), (3, 256), (4, 1))},
}  # fmt: skip


@dataclass(frozen=True)
class NotFinite(Bars):
    """A judge on an input, by name, that has infinities in its last row and NaN in its sixth."""

    spoiled: str = ""

    @cached_property
    def _raw(self) -> list[Array]:
        raw, at = [*super()._raw], self.loop.inputs.index(self.spoiled)
        raw[at] = raw[at].copy()
        raw[at][..., -1, 3], raw[at][..., 5, 9] = np.inf, np.nan
        return raw


@dataclass(frozen=True)
class Case:
    """A program, and the point of a template that writes its kernel.

    It is judged on finite inputs, and on others if it ``marks`` what an input of that name spoils.
    """

    program: Program
    point: str
    options: Options
    suits: Suits = product
    marks: str = ""

    def judges(self) -> tuple[Candidate, list[Bars]]:
        """Return the kernel as it is, and its judges."""
        r = request(self.program, self.options, self.suits)
        fused = compile(self.program.module, r.options, until="lower").fused
        made = build(r.loop, r.options, Choice.parse(self.point), r.source)
        given = fused, r.name, r.loop, r.env, 3
        return made, [Bars(*given), *([NotFinite(*given, self.marks)] if self.marks else [])]


@dd.trace(dd.f16[136, 264], dd.f16[264, 136])
def stored(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    """Products whose stages and boxes are filled again, for several tiles of a block."""
    return x @ w


@dd.trace(dd.f16[2, 130, 64], dd.f16[2, 300, 64], dd.f16[2, 300, 64])
def far(q: dd.Tensor, k: dd.Tensor, v: dd.Tensor) -> dd.Tensor:
    """Attention near a query, for which some of a block's keys are looked at for NaN alone."""
    return dd.scaled_dot_product_attention(q, k, v, score_mod=test_attention_tma.nearby)


# Gradients for which a block has so many tiles that rows of them lie where others lay, and the
# stages of a tile are filled again.
of_queries = test_weighted_tma.gradients(
    test_weighted_tma.QUERIES, dd.f16, (1, 2, 1, 200, 100, 64), causal=False
)
of_both = test_weighted_tma.gradients(
    test_weighted_tma.BOTH, dd.bf16, (2, 1, 1, 260, 200, 128), causal=False
)

CASES = {
    "tiled_gemm": Case(test_gemm.layer, test_gemm.POINT, Options()),
    "fma_gemm": Case(test_fma.layer, test_fma.POINT, test_fma.GPU),
    "mma_gemm": Case(test_mma.layer, test_mma.POINT, test_mma.GPU),
    "wgmma_gemm": Case(
        test_wgmma.layer, test_wgmma.POINT.format(apart=1, free=1), test_wgmma.GPU
    ),
    "wgmma_gemm by two": Case(
        test_wgmma.layer, test_wgmma.POINT.format(apart=1, free=2), test_wgmma.GPU
    ),
    "wgmma_gemm in turn": Case(test_wgmma.layer, test_wgmma.IN_TURNS, test_wgmma.GPU),
    "cluster_gemm": Case(test_cluster.layer, test_cluster.POINT, test_cluster.FEW),
    "tma_gemm": Case(test_tma.layer, test_tma.TOGETHER, test_tma.FEW),
    "tma_gemm by boxes": Case(stored, test_tma.BOXES, test_tma.ONE),
    "tma_gemm by boxes in turn": Case(stored, test_tma.BOXES_IN_TURN, test_tma.ONE),
    "tma_gemm of windows": Case(
        test_windows.layer, test_windows.POINT, test_windows.FEW, test_windows.SUITS
    ),
    "tma_gemm in turn": Case(test_tma.layer, test_tma.IN_TURN, test_tma.FEW),
    "tiled_attention": Case(
        test_attention.windowed, test_attention.POINT, Options(), test_attention.SUITS
    ),
    "tiled_attention by copies": Case(
        test_attention.copied, test_attention.POINT, test_attention.GPU, test_attention.SUITS
    ),
    "mma_attention": Case(
        test_attention_mma.windowed, test_attention_mma.POINT, test_attention_mma.OPTIONS,
        test_attention_mma.SUITS, marks="reshape_2",
    ),
    "tma_attention": Case(
        far, test_attention_tma.POINT.format(128, 64),
        test_attention_tma.FEW, test_attention_tma.SUITS, marks="v",
    ),
    "wgmma_attention": Case(
        test_attention_wgmma.windowed, test_attention_wgmma.POINT.format(64, 64),
        test_attention_wgmma.OPTIONS, test_attention_wgmma.SUITS, marks="reshape_2",
    ),
    "mma_weighted": Case(
        test_weighted_mma.CAUSAL, test_weighted_mma.POINT, test_weighted_mma.OPTIONS,
        test_weighted_mma.SUITS, marks="k",
    ),
    "tma_weighted": Case(
        of_queries, test_weighted_tma.POINT.format(2, 64), test_weighted_tma.ONE,
        test_weighted_tma.SUITS,
    ),
    "tma_weighted twice": Case(
        of_both, test_weighted_tma.POINT.format(2, 64), test_weighted_tma.ONE,
        test_weighted_tma.SUITS,
    ),
}  # fmt: skip


def lines(text: str) -> Iterator[int]:
    """Yield the numbers of lines, from 0, that order what threads do."""
    return (k for k, line in enumerate(text.splitlines()) if _ORDERS.match(line))


def without(c: Candidate, number: int) -> Candidate:
    """Return a kernel without a line of its text."""
    kept = [t for k, t in enumerate(c.text.source.splitlines(True)) if k != number]
    return replace(c, text=replace(c.text, source="".join(kept)))


class Deleted(NamedTuple):
    """A line that orders: its number from 1 and text, and which of such texts it is."""

    number: int
    text: str
    which: int


def orders(made: Candidate) -> Iterator[Deleted]:
    """Yield the lines of a kernel that order what threads do."""
    text, seen = made.text.source.splitlines(), Counter[str]()
    for k in lines(made.text.source):
        seen[text[k].strip()] += 1
        yield Deleted(k + 1, text[k].strip(), seen[text[k].strip()])


@cache
def judges(name: str) -> tuple[Candidate, list[Bars]]:
    """Return the kernel of a case, which its judges find right, and them."""
    made, found = CASES[name].judges()
    assert all(judge(made, engine("simt")) == "" for judge in found)
    return made, found


def is_found(name: str, d: Deleted, engines: Sequence[str]) -> bool:
    """Return whether some engine finds the loss of a line in the kernel of a case."""
    made, found = judges(name)
    wrong = without(made, d.number - 1)
    return any(judge(wrong, engine(e)) for e in engines for judge in found)


def _is_found(task: tuple[str, Deleted]) -> bool:
    return is_found(*task, ("simt", "ptx"))


def main(words: Sequence[str] | None = None) -> int:
    """Print lines whose loss no engine finds; return for how many no reason is known."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="", help="part of the names of cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    args = parser.parse_args(words)
    # Cases that are listed last take longest, so they go first.
    names = [name for name in reversed(CASES) if args.part in name]
    tasks = [(name, d) for name in names for d in orders(CASES[name].judges()[0])]
    lost, unknown = Counter[str](), 0
    with ProcessPoolExecutor(args.jobs) as pool:
        for k, found in enumerate(pool.map(_is_found, tasks)):
            name, d = tasks[k]
            if not found:
                why = REASONS.get((name, d.text, d.which), "")
                lost[name], unknown = lost[name] + 1, unknown + (not why)
                print(f"{name}, line {d.number}, {d.text}: {why or 'not found'}", flush=True)
            if k + 1 == len(tasks) or tasks[k + 1][0] != name:
                total = sum(n == name for n, _ in tasks)
                print(f"{name}: {total - lost[name]} of {total} found", flush=True)
    found_all = len(tasks) - lost.total()
    print(f"{found_all} of {len(tasks)} deletions found, {unknown} missed for no known reason")
    return unknown


if __name__ == "__main__":
    sys.exit(bool(main()))
