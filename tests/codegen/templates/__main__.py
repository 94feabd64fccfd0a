"""Judge a template on many drawn problems: ``python -m tests.codegen.templates mma_gemm 500``.

Seeds begin at 0, or at a number behind the count, such as 10000.  Behind a colon stands what is
drawn in place of matrix products: ``convolutions``, ``windows`` that TMA fetches, operands that are
``narrow`` or ``rounded`` to tf32, or ``integers``.  Every second problem of ``sm_90a`` is for a
device of two multiprocessors, whose blocks have several tiles.  With ``parts`` for a name, whole
programs whose product is cut into parts (``graph.parts``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random

import didyma as dd
from didyma.codegen.codegens import Asked, own
from didyma.codegen.options import Options
from didyma.codegen.templates.products import product
from didyma.refimpl.ir.target import SM_90A
from didyma.tracer.tracing import Program
from tests.codegen.templates import (
    draw,
    draw_attention,
    test_convolution,
    test_depthwise,
    test_windows,
)
from tests.codegen.templates.judging import Suits, judged, request

FEW = replace(SM_90A, processors=2, dynamic=128 << 10)
INTEGERS = (1, 5, 16, 32, 64, 80, 144, 272)  # of which rows of most begin at multiples of 16 bytes


def in_parts(count: int, first: int = 0) -> int:
    """Draw seeds until so many are products that are cut; return 1 if some are wrong."""
    seed, done, wrong = first, 0, 0
    while done < count:
        cut = draw.in_parts(seed)
        seed += 1
        if cut is not None:
            done += 1
            program, options, about = cut
            report = dd.check(program, options=options, engines=["simt", "host"], tries=1)
            if not report.agree:
                print(f"seed {seed - 1}: {about}: {report.findings[0].message}", flush=True)
                wrong += 1
    print(f"parts: {done} products of {seed - first} seeds, {wrong} wrong")
    return min(wrong, 1)


def _shared(seed: int, program: Program) -> draw.Drawn:
    return draw.Drawn(program, Random(seed).random(), "")


def products(name: str, kind: str) -> Callable[[int], draw.Drawn]:
    """Return what draws products, or what else of a kind a template for them writes."""
    _, dtypes, sizes = draw.FAMILIES[name]
    narrow = name != "tiled_gemm"
    kinds: dict[str, Callable[[int], draw.Drawn]] = {
        "": lambda seed: draw.drawn(seed, dtypes, sizes),
        "convolutions": lambda seed: _shared(seed, test_convolution.drawn(seed, narrow)),
        "windows": lambda seed: _shared(seed, test_windows.drawn(seed)[0]),
        "narrow": lambda seed: draw.drawn(seed, (dd.f32,), sizes, narrow=draw.NARROW),
        "rounded": lambda seed: draw.drawn(seed, (dd.f32,), sizes, rounded=True),
        "integers": lambda seed: draw.drawn(seed, (dd.i8,), INTEGERS),
    }
    return kinds[kind]


def draws(name: str, kind: str) -> tuple[str, Callable[[int], draw.Drawn], Suits]:
    """Return a template's target, what draws problems for it, and what tells whether it suits."""
    suits = own()[name].space
    if name in draw.FAMILIES:
        return draw.FAMILIES[name][0], products(name, kind), suits if kind == "windows" else product
    if name == "depthwise_conv":
        return "sm_80", lambda seed: _shared(seed, test_depthwise.drawn(seed)), suits
    if name in draw_attention.GRADIENTS:
        target, lengths, widths = draw_attention.GRADIENTS[name]
        return target, lambda seed: draw_attention.drawn_gradient(seed, lengths, widths), suits
    target, widths, lengths, half = draw_attention.FAMILIES[name]

    def attention(seed: int) -> draw.Drawn:
        dtype = draw.HALVES[seed % 2] if half else None
        return draw_attention.drawn(seed, dtype, widths, lengths)

    return target, attention, suits


def main(words: str, count: int, first: int = 0) -> int:
    """Draw seeds until so many are problems that the template suits; return 1 if some are wrong."""
    if words == "parts":
        return in_parts(count, first)
    name, _, kind = words.partition(":")
    target, drawn, suits = draws(name, kind)
    every = [Options(target=target), Options(target=FEW if target == "sm_90a" else target)]
    seed, done, wrong = first, 0, 0
    while done < count:
        d, options = drawn(seed), every[seed % 2]
        seed += 1
        try:
            r = request(d.program, options, suits)
        except AssertionError:  # of one row or column
            continue
        assert r.source is not None
        points = list(own()[name].points(Asked(r.source, r.loop, options.device)))
        if points:
            point, done = str(points[int(d.share * len(points))]), done + 1
            if (said := judged(d.program, point, options=options, suits=suits)) != {""}:
                print(f"seed {seed - 1}: {d.about}: {point}: {said}", flush=True)
                wrong += 1
    print(f"{words}: {done} problems of {seed - first} seeds, {wrong} wrong")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
