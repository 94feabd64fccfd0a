"""Convolutions on a GPU: whether they lie in their bars, and their times beside cuDNN's.

    python3 -m tests.gpu.convolutions [--problems 60] [--images 64] [--points 0] [--jobs 12]
                                     [--only depthwise]

Drawn convolutions are judged first: each as a compile makes it, and by a point of each template of
tensor cores.  Then, for each layer of a resnet50 in bf16, and for depthwise ones, what a compile
makes is timed in both orders of channels and places, beside PyTorch in both; and of each template
as many points as are asked for, which its model ranks first.  All are compiled before, in so many
processes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from typing import Any

import didyma as dd
from didyma.bench import gpu
from didyma.codegen.codegens import Asked, own
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.cuda import Cuda
from didyma.refimpl.errors import DidymaError
from didyma.tracer.tracing import Program
from tests.codegen.templates.judging import judged, points, request
from tests.codegen.templates.test_convolution import drawn
from tests.codegen.templates.test_windows import drawn as walked

GPU = dd.Options(target="sm_90a")
TEMPLATES = ("tma_gemm", "wgmma_gemm", "mma_gemm", "depthwise_conv")


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of square images and windows, whose borders keep the size at stride 1."""

    channels: int
    out: int
    window: int
    stride: int
    size: int
    groups: int = 1

    def program(self, images: int, last: bool) -> Program:
        """Trace it, with channels after the places or before them."""

        def f(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
            x = dd.moveaxis(x, -1, 1) if last else x
            w = dd.moveaxis(w, -1, 1) if last else w
            y = dd.conv(x, w, None, self.stride, self.window // 2, 1, self.groups)
            return dd.moveaxis(y, 1, -1) if last else y

        x, w = self.shapes(images)
        if last:
            x, w = ((s[0], *s[2:], s[1]) for s in (x, w))
        made: Program = dd.trace(dd.bf16[x], dd.bf16[w])(f)
        return made

    def shapes(self, images: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of images and weights, channels first."""
        window = (self.window, self.window)
        return (images, self.channels, self.size, self.size), (
            self.out, self.channels // self.groups, *window,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """How the table calls it."""
        wide = f"{self.channels}→{self.out} {self.window}×{self.window}/{self.stride}"
        return f"{wide} of {self.size}²" + (f" in {self.groups}" if self.groups > 1 else "")


RESNET = (
    Layer(3, 64, 7, 2, 224), Layer(64, 64, 1, 1, 56), Layer(64, 64, 3, 1, 56),
    Layer(64, 256, 1, 1, 56), Layer(256, 64, 1, 1, 56), Layer(256, 128, 1, 1, 56),
    Layer(128, 128, 3, 2, 56), Layer(128, 512, 1, 1, 28), Layer(256, 512, 1, 2, 56),
    Layer(512, 128, 1, 1, 28), Layer(128, 128, 3, 1, 28), Layer(512, 256, 1, 1, 28),
    Layer(256, 256, 3, 2, 28), Layer(256, 1024, 1, 1, 14), Layer(512, 1024, 1, 2, 28),
    Layer(1024, 256, 1, 1, 14), Layer(256, 256, 3, 1, 14), Layer(1024, 512, 1, 1, 14),
    Layer(512, 512, 3, 2, 14), Layer(512, 2048, 1, 1, 7), Layer(1024, 2048, 1, 2, 14),
    Layer(2048, 512, 1, 1, 7), Layer(512, 512, 3, 1, 7),
)  # fmt: skip
DEPTHWISE = (
    Layer(32, 32, 3, 1, 112, 32), Layer(96, 96, 3, 2, 112, 96), Layer(144, 144, 3, 1, 56, 144),
    Layer(576, 576, 3, 1, 14, 576), Layer(240, 240, 5, 1, 28, 240), Layer(960, 960, 7, 1, 14, 960),
)  # fmt: skip
LAYERS = {"resnet50": RESNET, "depthwise": DEPTHWISE}


def depthwise(seed: int) -> Program:
    """Return a depthwise convolution that a seed draws, of any of its dtypes, ranks and layouts."""
    rank, element = seed % 3 + 1, (dd.f32, dd.f16, dd.bf16)[seed // 3 % 3]
    channels, last, stride, dilation = 3 + seed % 7, seed % 2 == 1, 1 + seed // 2 % 2, 1 + seed % 2
    sizes, window = (9, 6, 11)[:rank], (3, 1, 2)[:rank]

    def f(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        y = dd.conv(dd.moveaxis(x, -1, 1) if last else x, w, None, stride, 2, dilation, channels)
        return dd.moveaxis(y, 1, -1) if last else y

    shape = (2, *sizes, channels) if last else (2, channels, *sizes)
    made: Program = dd.trace(element[shape], element[(channels, 1, *window)])(f)
    return made


@cache
def checked(by: bool = True) -> Cuda:
    """Return the engine of a process that judges, or of one that times."""
    return Cuda(checked=by)


def judge(seed: int) -> list[str]:
    """Judge what a seed draws; return a line for each way, which ends with what was wrong."""
    out = list[str]()
    for made, what in ((drawn(seed), "drawn"), (depthwise(seed), "depthwise")):
        report = dd.check(made, options=GPU, engines=[checked()], tries=1)
        out.append(f"{what} {seed}: {'; '.join(f.message for f in report.findings)}")
    for name in TEMPLATES:
        program = walked(seed)[0] if name == "tma_gemm" else drawn(seed, narrow=True)
        template = own()[name]
        try:
            every = points(request(program, GPU, template.space), template)
        except AssertionError:
            continue
        point = every[seed * 7 % len(every)]
        said = judged(program, point, options=GPU, suits=template.space, engines=(checked(),))
        out.append(f"{name} {seed} {point}: {'; '.join(said - {''})}")
    return out


def choices(job: tuple[Layer, int, bool, int]) -> list[str]:
    """Return the points that the models rank first; none where only schedules suit."""
    layer, images, last, count = job
    program = layer.program(images, last)
    made = compile(program.module, GPU, until="lower")
    found = list[tuple[float, str]]()
    for name, loop in made.loops.items():
        asked = Asked(made.fused.function(name), loop, GPU.device)
        for template in (own()[name] for name in TEMPLATES):
            first = islice(template.points(asked), count)
            found += [(template.cost(asked, p.table), f"{name}: {p}") for p in first]
    return [point for _, point in sorted(found)]


def options(point: str) -> dd.Options:
    """Return the options that choose a point; an empty one leaves it to the models."""
    kernels = dd.KernelOptions(choices=point) if point else dd.KernelOptions()
    return dd.Options(target="sm_90a", kernels=kernels)


def compiled(job: tuple[Layer, int, bool, str]) -> None:
    """Compile a point, for the process that times it to find in the cache."""
    layer, images, last, point = job
    with suppress(DidymaError):  # who times it tells why
        dd.compile(layer.program(images, last), options=options(point), engine=checked(False))


def distance(got: Any, want: Any, terms: int) -> float:
    """Return the largest error, of half a unit in the last place and the sum's own."""
    bar = want.abs() * 2**-8 + terms * 2**-22
    return float(((got.float() - want).abs() / bar).nan_to_num(nan=float("inf")).max())


class Bench:
    """Times contenders on layers."""

    def __init__(self, images: int) -> None:
        self.torch: Any = import_module("torch")
        self.torch.backends.cudnn.benchmark = True
        self.torch.backends.cudnn.allow_tf32 = False
        self.images, self.clock, self.engine = images, gpu.Clock(), Cuda(checked=False)

    def seconds(self, f: Callable[..., Any], given: Sequence[Any]) -> float:
        """Return the median time of a call, with nothing of its arguments in the caches."""
        sets = gpu.rotated(given, gpu.copies(sum(a.nbytes for a in given)))
        return statistics.median(self.clock.seconds(gpu.bound(f, sets)))

    def layer(self, layer: Layer, found: Sequence[tuple[bool, Sequence[str]]]) -> float:
        """Time a layer in both orders; return cuDNN's better time over our better one."""
        t = self.torch
        t.manual_seed(0)
        x, w = (t.randn(s, device="cuda", dtype=t.bfloat16) for s in layer.shapes(self.images))
        conv = partial(
            t.nn.functional.conv2d, stride=layer.stride, padding=layer.window // 2,
            groups=layer.groups,
        )  # fmt: skip
        t.backends.cudnn.benchmark = False  # which takes seconds to choose
        want = conv(x.float(), w.float())
        t.backends.cudnn.benchmark = True
        near = [a.contiguous(memory_format=t.channels_last) for a in (x, w)]
        peers = [self.seconds(conv, (x, w)), self.seconds(conv, near)]
        mine, notes = list[float](), list[str]()
        for last, offered in found:
            given = [a.permute(0, 2, 3, 1).contiguous() for a in (x, w)] if last else [x, w]
            program, best = layer.program(self.images, last), float("inf")
            for point in ("", *offered):
                try:
                    exe: Any = dd.compile(program, options=options(point), engine=self.engine)
                    got = t.as_tensor(exe(*given))
                except (DidymaError, RuntimeError) as e:
                    notes.append(f"FAILED {point}: {e}")
                    continue
                got = got.permute(0, 3, 1, 2) if last else got
                off = distance(got, want, w[0].numel())
                taken = self.seconds(exe, given)
                best = min(best, taken)
                wrong = "" if off <= 1 else f"  WRONG {off:.3g}"
                label = "last " if last else "first"
                notes.append(f"    {label} {taken * 1e6:8.1f} us  {point or 'default'}{wrong}")
                if not point:
                    mine.append(taken)
        every = "  ".join(f"{1e6 * s:8.1f}" for s in (*mine, *peers))
        ratio = min(peers) / min(mine)
        print(f"{layer.name:30} {every}  {ratio:5.2f}", *notes, sep="\n", flush=True)
        return ratio


def mean(xs: Sequence[float]) -> float:
    """Return the geometric mean."""
    return statistics.geometric_mean(xs) if xs else 0.0


def wrong_ones(pool: ProcessPoolExecutor, count: int) -> Iterator[str]:
    """Yield what was wrong of drawn problems, and say how many were judged."""
    done = 0
    for lines in pool.map(judge, range(count)):
        done += len(lines)
        yield from (x for x in lines if not x.endswith(": "))
    print(f"judged on cuda: {done} kernels of drawn convolutions", flush=True)


def main() -> int:
    """Judge, then time; 4 without a GPU."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--problems", type=int, default=60)
    p.add_argument("--images", type=int, default=64)
    p.add_argument("--points", type=int, default=0)
    p.add_argument("--jobs", type=int, default=12)
    p.add_argument("--only", choices=[*LAYERS], help="only these layers")
    a = p.parse_args()
    gpu.require()
    sets = {name: x for name, x in LAYERS.items() if a.only in (None, name)}
    layers = [layer for x in sets.values() for layer in x]
    jobs = [(x, a.images, last, a.points) for x in layers for last in (False, True)]
    with ProcessPoolExecutor(a.jobs, mp_context=get_context("spawn")) as pool:
        wrong = list(wrong_ones(pool, a.problems))
        found = list(pool.map(choices, jobs))
        every = [(*job[:3], p) for job, ps in zip(jobs, found, strict=True) for p in ("", *ps)]
        list(pool.map(compiled, every))
    print(*wrong, sep="\n", flush=True)
    bench, ratios = Bench(a.images), dict[Layer, float]()
    print(f"{'us, ' + str(a.images) + ' images of bf16':30} {'first':>8}  {'last':>8}"
          f"  {'torch':>8}  {'ch.last':>8}  faster")  # fmt: skip
    for n, layer in enumerate(layers):
        pairs = ((False, found[2 * n]), (True, found[2 * n + 1]))
        ratios[layer] = bench.layer(layer, pairs)
    for name, x in sets.items():
        faster = mean([ratios[layer] for layer in x])
        print(f"{name}: {faster:.3f} times cuDNN's speed, geometric mean")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
