"""Programs on two GPUs and the CPU, and built programs whose calls are CUDA graphs.

    python3 -m tests.gpu.several [--seconds 40] [--devices cuda:1,host:0] [--engine cuda]

On engine ``cuda``, drawn graphs are spread over devices; each must lie inside the error bars of the
reference.  A built program runs alone on all of them, with the driver's copies counted: those of
the text and no others.  Faults in its module must be seen.  Graphs of calls must give the bits that
calls give line by line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import didyma as dd
from didyma.artifacts.build import Target, contents, write
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.fuzz.chooser import Dice
from didyma.fuzz.devices import spread
from didyma.fuzz.domains.graphs import Graphs
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Copy
from didyma.refimpl.ir.text import parse_module

ARCHITECTURE = "sm_90a"
SEVERAL = """module {
  func @main(%x: f32[8], %y: f32[8]@cuda:1) -> (%a, %b, %c) {
    %e = exp(%y) : f32[8]@cuda:1
    %k = constant(value=f32[8] [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5]) : f32[8]@cuda:1
    %f = add(%e, %k) : f32[8]@cuda:1
    %a = to(%f, device="") : f32[8]
    %g = add(%a, %x) : f32[8]
    %h = to(%g, device="host:0") : f32[8]@host:0
    %s = cumulative_sum(%h, axis=0, exclusive=false, reverse=false) : f32[8]@host:0
    %b = to(%s, device="cuda:1") : f32[8]@cuda:1
    %c = multiply(%b, %f) : f32[8]@cuda:1
  }
}
"""
CHAIN = """module {
  func @main(%x: f32[256, 256], %w: f32[256, 256]) -> (%h) {
    %a = matmul(%x, %w) : f32[256, 256]
    %b = tanh(%a) : f32[256, 256]
    %c = matmul(%b, %w) : f32[256, 256]
    %d = tanh(%c) : f32[256, 256]
    %e = matmul(%d, %w) : f32[256, 256]
    %f = tanh(%e) : f32[256, 256]
    %g = matmul(%f, %w) : f32[256, 256]
    %h = tanh(%g) : f32[256, 256]
  }
}
"""
# What runs alone: the calls of a module, its copies between devices, and how long calls take.
ALONE = """
import json, statistics, sys, time
import numpy as np
sys.path.insert(0, sys.argv[1])
import module
from didyma_runtime import cuda, devices
copies = []
do = cuda.do
def told(name, *args, **named):
    if name in ("cuMemcpyPeer",):
        copies.append(name)
    return do(name, *args, **named)
cuda.do = told
through = devices.Devices._through_host
def told_too(self, target, source):
    copies.append("through the host")
    return through(self, target, source)
devices.Devices._through_host = told_too
def given():
    return [np.load(p) for p in sys.argv[2:]]
first = module.call(given())
count = len(copies)
calls = [module.call(given()) for _ in range(5)]
same = all(a.tobytes() == b.tobytes() for c in calls for a, b in zip(first, c))
def clock(run):
    times = []
    for _ in range(200):
        args = given_ + []
        start = time.perf_counter()
        run(args)
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)
given_ = given()
times = clock(module.call), clock(lambda args: module.by_line(args, externs={"no": 1}))
print(json.dumps({
    "same": same, "copies": copies[:count], "graph": module.tapes.replay.__name__ == "replay",
    "call": times[0], "by line": times[1], "results": [a.tolist() for a in first[:3]],
}))
"""


def drawn(seconds: float, names: tuple[str, ...], engine: str) -> Counter[str]:
    """What became of drawn graphs that were spread over devices."""
    seen, index, start = Counter[str](), 0, time.monotonic()
    domain = Graphs(engines=())
    while time.monotonic() - start < seconds:
        case = domain.draw(16, index)
        m = spread(case.module, Dice(index), ("", *names))
        program, inputs, index = dd.Program(m), case.inputs(), index + 1
        try:
            want = dd.interpret(program, *inputs)
            got = dd.compile(program, engine=engine)(*inputs)
        except DidymaError as e:
            seen[f"refused: {e.code}"] += 1
            if e.code in ("launch-failed", "wrong-device", "device-lost"):
                print("WRONG", index - 1, e)
            continue
        agree = all(c.agree for c in want.compare(got))
        seen["agree" if agree else "WRONG"] += 1
        if not agree:
            print("WRONG", index - 1, [c.message for c in want.compare(got) if not c.agree])
    return seen


def built(text: str, folder: Path, seed: int) -> list[str]:
    """Write an artifact and inputs, and return the words that run it alone."""
    c = compile(parse_module(text), Options().changed({"target": ARCHITECTURE}))
    write(folder, contents({ARCHITECTURE: Target(c)}))
    rng, words = np.random.default_rng(seed), [str(folder / ARCHITECTURE)]
    for i, p in enumerate(c.source.entry.params):
        path = folder / f"in{i}.npy"
        np.save(path, rng.normal(size=[int(d) for d in p.type.shape]).astype(np.float32) / 8)
        words.append(str(path))
    types = c.program.type
    apart = [types[x.value].device != types[x.source].device
             for x in walk(c.program.lines) if isinstance(x, Copy)]  # fmt: skip
    print("copies in the text:", sum(apart))
    return words


def alone(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a built program in a process without Didyma."""
    run = [sys.executable, "-I", "-B", "-c", ALONE, *words]
    return subprocess.run(run, capture_output=True, text=True, check=False)


def judge(name: str, text: str, words: list[str]) -> None:
    """Print what a built program gave alone, and whether it is inside the error bars."""
    done = alone(words)
    if done.returncode:
        print(f"{name}: exit {done.returncode}:", done.stderr.strip()[-300:])
        return
    told = json.loads(done.stdout)
    inputs = [np.load(w) for w in words[1:]]
    want = dd.interpret(dd.Program(parse_module(text)), *inputs)
    results = tuple(np.float32(r) for r in told.pop("results"))
    print(f"{name}: agree {[c.agree for c in want.compare(results)]}", told)


def main() -> None:
    """Run all of it, and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--devices", default="cuda:1,host:0")
    parser.add_argument("--engine", default="cuda")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for name, text in (("several", SEVERAL), ("chain", CHAIN)):
            judge(name, text, built(text, Path(place) / name, 3))
        module = Path(place) / "several" / ARCHITECTURE / "module.py"
        whole = module.read_text()
        for old, new in (
            ('with engine.on("cuda:1"):', "if True:"),
            ('with engine.on("host:0"):', "if True:"),
            ("    engine.copy(a, ", "    (lambda *_: None)(a, "),
        ):
            module.write_text(whole.replace(old, new, 1))
            judge(f"fault {old.strip()}", SEVERAL, [str(module.parent), *words_of(module)])
    print("drawn:", dict(drawn(asked.seconds, tuple(asked.devices.split(",")), asked.engine)))


def words_of(module: Path) -> list[str]:
    """The inputs beside an artifact."""
    return [str(p) for p in sorted(module.parent.parent.glob("in*.npy"))]


if __name__ == "__main__":
    main()
