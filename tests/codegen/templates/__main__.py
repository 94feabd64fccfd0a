"""Judge a template on many drawn problems: ``python -m tests.codegen.templates mma_gemm 500``.

With ``parts`` for a name, whole programs whose product is cut into parts (``graph.parts``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import didyma as dd
from didyma.codegen.codegens import Asked, own
from didyma.codegen.options import Options
from didyma.codegen.templates.products import product
from tests.codegen.templates import draw, draw_attention
from tests.codegen.templates.judging import Suits, judged, request


def in_parts(count: int) -> int:
    """Draw seeds until so many are products that are cut; return 1 if some are wrong."""
    seed = done = wrong = 0
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
    print(f"parts: {done} products of {seed} seeds, {wrong} wrong")
    return min(wrong, 1)


def draws(name: str) -> tuple[str, Callable[[int], draw.Drawn], Suits]:
    """Return a template's target, what draws problems for it, and what tells whether it suits."""
    if name in draw.FAMILIES:
        target, dtypes, sizes = draw.FAMILIES[name]
        return target, lambda seed: draw.drawn(seed, dtypes, sizes), product
    suits = own()[name].space
    if name in draw_attention.GRADIENTS:
        target, lengths, widths = draw_attention.GRADIENTS[name]
        return target, lambda seed: draw_attention.drawn_gradient(seed, lengths, widths), suits
    target, widths, lengths, half = draw_attention.FAMILIES[name]

    def attention(seed: int) -> draw.Drawn:
        dtype = draw.HALVES[seed % 2] if half else None
        return draw_attention.drawn(seed, dtype, widths, lengths)

    return target, attention, suits


def main(name: str, count: int) -> int:
    """Draw seeds until so many are problems that the template suits; return 1 if some are wrong."""
    if name == "parts":
        return in_parts(count)
    target, drawn, suits = draws(name)
    options, seed, done, wrong = Options(target=target), 0, 0, 0
    while done < count:
        d = drawn(seed)
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
    print(f"{name}: {done} problems of {seed} seeds, {wrong} wrong")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
