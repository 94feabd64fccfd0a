"""Judge a template on many drawn products: ``python -m tests.codegen.templates mma_gemm 500``.

With ``parts`` for a name, whole programs whose product is cut into parts (``graph.parts``).
"""

from __future__ import annotations

import sys

import didyma as dd
from didyma.codegen.codegens import Asked, own
from didyma.codegen.options import Options
from tests.codegen.templates import draw
from tests.codegen.templates.judging import judged, request


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


def main(name: str, count: int) -> int:
    """Draw seeds until so many are products that the template suits; return 1 if some are wrong."""
    if name == "parts":
        return in_parts(count)
    target, dtypes, sizes = draw.FAMILIES[name]
    options, seed, done, wrong = Options(target=target), 0, 0, 0
    while done < count:
        d = draw.drawn(seed, dtypes, sizes)
        seed += 1
        try:
            r = request(d.program, options)
        except AssertionError:  # of one row or column
            continue
        assert r.source is not None
        points = list(own()[name].points(Asked(r.source, r.loop, options.device)))
        if points:
            point, done = str(points[int(d.share * len(points))]), done + 1
            if (said := judged(d.program, point, options=options)) != {""}:
                print(f"seed {seed - 1}: {d.about}: {point}: {said}", flush=True)
                wrong += 1
    print(f"{name}: {done} products of {seed} seeds, {wrong} wrong")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
