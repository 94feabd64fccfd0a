"""Matrix products of tensor cores on a GPU, beside cuBLAS: are they right, and how long they take.

    python3 -m tests.gpu.products [--problems 40] [--points 4] [--sets all] [--json FILE]

First templates are judged on drawn problems.  Then, for each shape, the choices that the models of
the templates rank first are compared with ``torch.matmul`` and timed beside it, on random data and
outputs that are poisoned before; a result must lie within half a unit of its last place and
``K * 2**-24`` of the sum of the sizes of all terms, and be exact where these are integers, whose
peer is ``torch._int_mm``.  *Burst*: the GPU rests before each contender.
Where a compile cuts the terms into parts, its two kernels are the first choice.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any

import didyma as dd
from didyma.codegen.codegens import Asked, Template, own
from didyma.codegen.options import Options
from didyma.codegen.passes import parts
from didyma.codegen.runtime import driver
from didyma.codegen.runtime.cuda import Cuda, CudaLoaded
from didyma.codegen.runtime.didyma_runtime.maps import starts
from didyma.codegen.runtime.geometry import geometry
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.select.choice import Choice, build
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.target import SM_90A
from didyma.tracer.tracing import Program
from tests.codegen.templates import draw
from tests.codegen.templates.judging import judged, request

GPU = Options(target="sm_90a").changed({"graph.parts": 1})  # one kernel a shape
TEMPLATES = ("cluster_gemm", "tma_gemm", "wgmma_gemm", "mma_gemm", "fma_gemm")
LAST = {"wgmma_gemm", "mma_gemm", "fma_gemm"}  # that follow others
REST = 0.05  # seconds before each contender


@dataclass(frozen=True)
class Shape:
    """A product: its sizes, whether the right operand is given transposed, and what follows."""

    rows: int
    columns: int
    terms: int
    batch: int = 0
    turned: bool = False
    after: str = ""
    dtype: str = "bf16"

    @property
    def name(self) -> str:
        """How the table calls it."""
        sizes = f"{self.rows}×{self.columns}×{self.terms}"
        parts = (f"{self.batch}×" if self.batch else "", sizes, "ᵀ" if self.turned else "")
        return " ".join(filter(None, ("".join(parts), self.after, self.dtype.replace("bf16", ""))))

    def program(self) -> Program:
        """Return it as a program of its dtype, whose sums of integers are in i32."""
        lead = (self.batch,) if self.batch else ()
        right = (self.columns, self.terms) if self.turned else (self.terms, self.columns)
        element: Any = getattr(dd, self.dtype)
        types: list[Any] = [element[(*lead, self.rows, self.terms)], element[(*lead, *right)]]
        if "bias" in self.after:
            types.append(dd.bf16[(self.columns,)])
        if "residual" in self.after:
            types.append(dd.bf16[(self.rows, self.columns)])

        def f(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
            if self.dtype == "i8":
                x, w = dd.astype(x, dd.i32), dd.astype(w, dd.i32)
            return x @ (dd.transpose(w, (1, 0)) if self.turned else w)

        def biased(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
            return gelu(f(x, w) + b) if "gelu" in self.after else f(x, w) + b

        def more(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor, z: dd.Tensor) -> dd.Tensor:
            return biased(x, w, b) + z

        which: dict[int, Callable[..., dd.Tensor]] = {2: f, 3: biased, 4: more}
        made: Program = dd.trace(*types)(which[len(types)])
        return made


def gelu(x: dd.Tensor) -> dd.Tensor:
    y = dd.astype(x, dd.f32)
    return dd.astype(y * 0.5 * (1.0 + dd.erf(y * 0.7071067811865476)), dd.bf16)


SETS: dict[str, Sequence[Shape]] = {
    "square": [Shape(n, n, n) for n in (512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)],
    "turned": [Shape(n, n, n, turned=True) for n in (1024, 2048, 4096, 8192)],
    "skinny": [Shape(16, 4096, 4096), Shape(32, 8192, 8192), Shape(64, 4096, 4096, turned=True),
               Shape(128, 8192, 8192), Shape(256, 4096, 4096), Shape(512, 512, 16384),
               Shape(1024, 1024, 8192), Shape(8192, 8192, 64), Shape(4096, 4096, 256),
               Shape(4096, 256, 4096), Shape(16384, 1024, 1024), Shape(1024, 8192, 8192),
               Shape(8192, 1024, 8192, turned=True)],
    "ragged": [Shape(1000, 4104, 2056), Shape(1023, 1016, 1000), Shape(777, 1001, 513),
               Shape(3000, 2000, 1000), Shape(4100, 4104, 4104, turned=True)],
    "batched": [Shape(512, 512, 64, 64), Shape(1024, 1024, 1024, 16), Shape(128, 128, 512, 128),
                Shape(2048, 128, 2048, 32), Shape(2048, 2048, 512, 8)],
    "wide": [Shape(8192, 28672, 4096), Shape(4096, 14336, 4096, turned=True),
             Shape(4096, 4096, 14336), Shape(2048, 16384, 2048, turned=True)],
    "f32": [Shape(n, n, n, dtype="f32") for n in (1024, 2048, 4096)]
           + [Shape(4096, 4096, 4096, turned=True, dtype="f32"),
              Shape(1000, 4104, 2056, dtype="f32"), Shape(777, 1001, 513, dtype="f32"),
              Shape(512, 512, 256, 64, dtype="f32")],
    "i8": [Shape(n, n, n, turned=True, dtype="i8") for n in (1024, 2048, 4096, 8192)]
          + [Shape(32, 8192, 8192, turned=True, dtype="i8"),
             Shape(1008, 4104, 2064, turned=True, dtype="i8")],
    "fused": [Shape(4096, 4096, 4096, after="bias gelu"),
              Shape(8192, 8192, 1024, after="bias gelu"),
              Shape(4096, 4096, 4096, after="bias residual"),
              Shape(8192, 8192, 1024, after="bias residual")],
}  # fmt: skip


@dataclass(frozen=True)
class Built:
    """A choice for a shape, compiled."""

    shape: Shape
    choice: str
    text: KernelText
    code: bytes
    inputs: tuple[str, ...]
    cost: float


def made(job: tuple[Shape, int, bool, Sequence[str]]) -> list[Built]:
    """Compile what the models rank first: so many points of a template, in all stages or one.

    Of the ``LAST`` templates, after another that suits the shape, it is one point.
    """
    shape, count, stages, names = job
    r = request(shape.program(), GPU)
    assert r.source is not None
    asked = Asked(r.source, r.loop, GPU.device)
    which = iter if stages else _apart
    found: list[tuple[Template, Point]] = []
    for t in (own()[name] for name in names):
        some = 1 if found and t.name in LAST else count
        found += [(t, p) for p in islice(which(t.points(asked)), some)]
    compiler, out = NvrtcCompiler("sm_90a", early=True), list[Built]()
    for t, p in found:
        candidate = build(r.loop, r.options, Choice((p,)), r.source)
        code = compiler.compile(candidate.text).code
        out.append(
            Built(shape, str(p), candidate.text, code, r.loop.inputs, t.cost(asked, p.table))
        )
    return sorted(out, key=lambda b: b.cost)


def _apart(points: Iterator[Point]) -> Iterator[Point]:
    """Yield points that differ in more than their stages and the order of tiles."""
    seen: set[tuple[tuple[str, int], ...]] = set()
    for p in points:
        rest = tuple(pair for pair in p.values if pair[0] not in ("stages", "group"))
        if rest not in seen:
            seen.add(rest)
            yield p


class Bench:
    """Times contenders on one shape."""

    def __init__(self, engine: Cuda, shape: Shape) -> None:
        torch: Any = import_module("torch")
        self.t = torch
        self.engine, self.shape = engine, shape
        lead = (shape.batch,) if shape.batch else ()
        right = (shape.columns, shape.terms) if shape.turned else (shape.terms, shape.columns)
        sizes: list[tuple[int, ...]] = [(*lead, shape.rows, shape.terms), (*lead, *right)]
        if "bias" in shape.after:
            sizes.append((shape.columns,))
        if "residual" in shape.after:
            sizes.append((shape.rows, shape.columns))
        torch.manual_seed(1)
        kind = {"f32": torch.float32, "i8": torch.int32}.get(shape.dtype, torch.bfloat16)
        byte = {"device": "cuda", "dtype": torch.int8}
        self.given: list[Any] = [
            torch.randint(-128, 128, s, **byte) if shape.dtype == "i8"
            else torch.randn(s, device="cuda", dtype=kind) for s in sizes
        ]  # fmt: skip
        self.out: Any = torch.empty((*lead, shape.rows, shape.columns), device="cuda",
                               dtype=kind)  # fmt: skip
        self.work = 2 * max(1, shape.batch) * shape.rows * shape.columns * shape.terms

    def reference(self, x: Any, w: Any, *more: Any) -> Any:
        """Compute in f32 what the contenders do, and the sum of the sizes of terms."""
        w = w.mT if self.shape.turned else w
        y, scale = x @ w, x.abs() @ w.abs()
        given: list[Any] = list(more)
        if "bias" in self.shape.after:
            y = y + given.pop(0)
        if "gelu" in self.shape.after:
            y = self.t.nn.functional.gelu(y)
        return (y + given.pop(0) if given else y), scale

    def peer(self) -> Callable[[], Any]:
        """Return what torch does: cuBLAS where nothing follows."""
        x, w, *more = self.given
        w = w.mT if self.shape.turned else w
        if self.shape.dtype == "i8":
            return lambda: self.t._int_mm(x, w, out=self.out)
        if not self.shape.after:
            return lambda: self.t.matmul(x, w, out=self.out)

        def f(x: Any, w: Any, *more: Any) -> Any:
            y = x @ w + more[0]
            if "gelu" in self.shape.after:
                y = self.t.nn.functional.gelu(y)
            return y + more[1] if "residual" in self.shape.after else y

        self.t.compiler.reset()  # or it takes sizes for symbols
        fast = self.t.compile(f, mode="max-autotune-no-cudagraphs", dynamic=False)
        return lambda: fast(x, w, *more)

    def start(self, b: Built) -> Callable[[], Any]:
        """Return what launches a kernel."""
        loaded = CudaLoaded(b.text, b.code, False, lambda _: None)
        (s,) = b.text.kernels
        g = geometry(s, {})
        known = dict(zip("xwbz", self.given, strict=False))
        more = [
            self.t.empty(n, device="cuda", dtype=self.t.uint8)
            for n in g.nbytes[len(b.inputs) + 1 :]  # of the workspace
        ]
        arrays = (*(known[name[0]] for name in b.inputs), self.out, *more)
        addresses = [x.data_ptr() for x in arrays]
        maps = [w for d in g.maps for w in driver.tensor_map(addresses[d.buffer], d)]
        cells = array("Q", addresses + maps)
        first = cells.buffer_info()[0]
        begin = starts(len(addresses), len(g.maps), len(cells))
        args = array("Q", [first + 8 * at for at in begin])
        launch, function, shared = (
            driver.launcher(early=True), loaded.functions[s.name], loaded.shared.get(s.name, 0),
        )  # fmt: skip

        def run() -> None:
            stream = ctypes.c_void_p(self.t.cuda.current_stream().cuda_stream)
            where = ctypes.c_void_p(args.buffer_info()[0])
            call = driver.launch(function, g.grid, s.block, shared, stream, where, early=True)
            if code := launch(*call):
                raise RuntimeError(f"launch: {driver.error_name(code)}")
            _ = loaded, cells, args, more

        return run

    def error(self, run: Callable[[], Any]) -> float:
        """Return the largest error of a contender, of what it may have."""
        self.out.fill_(-1 if self.shape.dtype == "i8" else float("nan"))
        got = run()
        got = self.out if got is None else got
        self.t.cuda.synchronize()
        if self.shape.dtype == "i8":
            exact, _ = self.reference(*(x.double() for x in self.given))
            return float("inf") if (got.double() != exact).any() else 0.0
        exact, scale = self.reference(*(x.float() for x in self.given))
        if self.shape.dtype == "f32":
            exact, scale = (x.float() for x in self.reference(*(x.double() for x in self.given)))
        last = 2**-24 if self.shape.dtype == "f32" else 2**-8
        bar = (
            exact.abs() * last + self.shape.terms * 2**-24 * scale + 2**-6 * bool(self.shape.after)
        )
        wrong = (got.float() - exact).abs() / bar
        return float(wrong.nan_to_num(nan=float("inf")).max())

    def seconds(self, run: Callable[[], Any], load: float = 0.0) -> float:
        """Return the time of a call: in a burst after a rest, or after so many seconds of load."""
        t = self.t
        begin, end = (t.cuda.Event(enable_timing=True) for _ in range(2))
        run()
        t.cuda.synchronize()
        stop = time.perf_counter() + load
        while time.perf_counter() < stop:
            for _ in range(20):
                run()
            t.cuda.synchronize()
        count = max(5, min(200, int(8e-3 / (self.work / 5e14 + 5e-6))))
        graph = t.cuda.CUDAGraph()
        with t.cuda.graph(graph):
            for _ in range(count):
                run()
        graph.replay()
        t.cuda.synchronize()
        if not load:
            time.sleep(REST)
        times: list[float] = []
        for _ in range(3):
            begin.record()
            graph.replay()
            end.record()
            t.cuda.synchronize()
            times.append(float(begin.elapsed_time(end)) / count / 1e3)
        return min(times)


def in_parts(engine: Cuda, bench: Bench) -> tuple[str, Callable[[], Any]] | None:
    """Return what a compile makes of a product whose terms it cuts into parts; else None."""
    s = bench.shape
    if s.batch or s.after or s.dtype != "bf16":
        return None
    count = parts.count(s.rows, s.columns, s.terms, SM_90A.processors, clusters=True)
    if count == 1:
        return None
    exe: Any = dd.compile(s.program(), options=Options(target="sm_90a"), engine=engine)
    return f"{count} parts, and their sums", lambda: bench.t.as_tensor(exe(*bench.given))


def timed(engine: Cuda, shape: Shape, built: Sequence[Built], load: float) -> dict[str, Any]:
    """Judge and time torch and all choices for a shape."""
    bench = Bench(engine, shape)
    peer = bench.peer()
    row: dict[str, Any] = {"shape": shape.name, "torch": bench.seconds(peer, load), "choices": []}
    ways = [(b.choice, b.cost, bench.start(b)) for b in built]
    if (cut := in_parts(engine, bench)) is not None:
        ways.insert(0, (cut[0], 0.0, cut[1]))
    for choice, cost, run in ways:
        error = bench.error(run)
        seconds = bench.seconds(run, load)
        row["choices"].append({"choice": choice, "s": seconds, "error": error, "cost": cost})
    row["torch"] = min(row["torch"], bench.seconds(peer, load))
    best = min(row["choices"], key=lambda c: c["s"])
    pick, rate = row["choices"][0], bench.work / 1e12
    print(f"{shape.name:28} torch {row['torch'] * 1e6:8.1f} us {rate / row['torch']:6.1f} TF  "
          f"pick {row['torch'] / pick['s']:5.2f}x  best {row['torch'] / best['s']:5.2f}x "
          f"{rate / best['s']:6.1f} TF {best['choice']}", flush=True)  # fmt: skip
    for c in row["choices"]:
        wrong = "" if c["error"] <= 1 else f"  WRONG {c['error']:.3g}"
        print(f"      {c['s'] * 1e6:8.1f} us  model {c['cost']:10.0f}  {c['choice']}{wrong}")
    return row


def judge(engine: Cuda, count: int) -> int:
    """Judge drawn problems on the GPU; return how many kernels are wrong."""
    wrong = 0
    for name in TEMPLATES:
        _, dtypes, sizes = draw.FAMILIES[name]
        done, seed = 0, 1000
        while done < count:
            d = draw.drawn(seed, dtypes, sizes)
            seed += 1
            try:
                r = request(d.program, GPU)
            except AssertionError:
                continue
            assert r.source is not None
            points = list(own()[name].points(Asked(r.source, r.loop, GPU.device)))
            if not points:
                continue
            point, done = str(points[int(d.share * len(points))]), done + 1
            if said := judged(d.program, point, options=GPU, engines=(engine,)) - {""}:
                print(f"WRONG seed {seed - 1} {d.about} {point}: {said}", flush=True)
                wrong += 1
        print(f"{name}: {done} drawn products on cuda, {wrong} wrong", flush=True)
    return wrong


def main() -> int:
    """Parse the arguments, judge, time."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--problems", type=int, default=40)
    p.add_argument("--points", type=int, default=4)
    p.add_argument("--stages", action="store_true", help="points that differ in stages alone")
    p.add_argument("--sets", default="square,turned,skinny,ragged,batched,wide")
    p.add_argument("--load", type=float, default=0.0, help="seconds of load before, for sustained")
    p.add_argument("--seconds", type=float, default=1e9, help="begin no shape after so long")
    p.add_argument("--templates", default=",".join(TEMPLATES))
    p.add_argument("--json", default="")
    a = p.parse_args()
    shapes = [s for name in a.sets.split(",") for s in SETS.get(name, ())]
    names = a.templates.split(",")
    with ProcessPoolExecutor(14) as pool:
        built = list(pool.map(made, [(s, a.points, a.stages, names) for s in shapes]))
    print("compiled", flush=True)
    engine, rows, wrong, began = Cuda(checked=False), list[dict[str, Any]](), 0, time.time()
    if a.problems:
        wrong = judge(Cuda(), a.problems)
    for shape, choices in zip(shapes, built, strict=True):
        if time.time() - began > a.seconds:
            break
        if not choices:
            print(f"{shape.name:28} no template of {a.templates} suits it", flush=True)
            continue
        rows.append(timed(engine, shape, choices, a.load))
        if a.json:
            with open(a.json, "w") as f:
                json.dump(rows, f)
    return int(wrong > 0 or any(c["error"] > 1 for row in rows for c in row["choices"]))


if __name__ == "__main__":
    sys.exit(main())
