"""The engine ``host-fast`` beside ``host`` and ONNX Runtime, on the same cores, in one process.

``python -m tests.bench.fast`` runs onnx's light CNNs, a small transformer, recurrent layers and
convolutions with strides of small images; ``-k NAME`` takes some.
The engines take turns, and the least time of each counts.  ``--drawn N`` also compares the bits of
``host-fast`` with those of ``host`` over N drawn programs, ``--save FILE`` keeps the table.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.fast.engine import HostFast
from didyma.codegen.runtime.host import Host
from didyma.fuzz import levels
from didyma.onnx.export import to_model
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.types import Array
from tests.bench import light
from tests.bench.decoder import decoder
from tests.codegen import graphs

SLOW = 1.0  # seconds from which on a run is not repeated often
HEAD = ("model", "onnxruntime ms", "host-fast ms", "times onnxruntime", "host ms", "compile s")
LAYERS, WIDTH, HEADS, LENGTH = 4, 256, 4, 128  # of the transformer
MOBILE = (  # channels read and made, and the stride, of MobileNet v1's pairs of convolutions
    *((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)),
    *[(512, 512, 1)] * 5,
    *((512, 1024, 2), (1024, 1024, 1)),
)


def models(wanted: str) -> Iterator[tuple[str, Path, Mapping[str, Array]]]:
    """Yield names, ONNX files and inputs of models."""
    import onnx

    for path in sorted(light.folder().glob("light_*.onnx")):
        if wanted in path.stem:
            model = onnx.load_model_from_string(path.read_bytes())
            yield path.stem, path, light.inputs(model)
    with tempfile.TemporaryDirectory() as folder:
        for name, node, gates in (("lstm", "LSTM", 4), ("gru", "GRU", 3)):
            if wanted in name:
                yield name, *_built(Path(folder), *_recurrent(node, gates))
        if wanted in "strided":
            yield "strided", *_built(Path(folder), *_strided())
        if wanted in "mobile":
            yield "mobile", *_built(Path(folder), *_mobile())
    if wanted in "transformer":
        m = decoder(LAYERS, WIDTH, HEADS, (1, 8), (1, 512))
        rng = np.random.default_rng(1)
        sizes = {"B": 1, "S": LENGTH}
        feeds = {
            p.name: (rng.standard_normal(dims.values(p.type.shape, sizes)) * 0.05).astype(
                np.float32
            )
            for p in m.entry.params
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "transformer.onnx"
            path.write_bytes(to_model(m).SerializeToString())
            yield "transformer", path, feeds


Sizes: TypeAlias = tuple[int, ...]
Part: TypeAlias = tuple[list[Any], dict[str, Sizes], Sizes]  # nodes, weights, and the input


def _recurrent(op: str, gates: int) -> Part:
    """Return a recurrent layer of 128 features over 32 steps."""
    helper: Any = importlib.import_module("onnx.helper")
    weights = {"w": (1, gates * 128, 128), "r": (1, gates * 128, 128), "b": (1, gates * 256)}
    node = helper.make_node(op, ["x", *weights], ["y"], hidden_size=128)
    return [node], weights, (32, 1, 128)


def _strided() -> Part:
    """Return four convolutions with strides of 2, as heads that look for objects have them."""
    helper: Any = importlib.import_module("onnx.helper")
    nodes, weights = list[Any](), dict[str, Sizes]()
    channels, value = 32, "x"
    for k, out in enumerate((64, 128, 128, 256)):
        weights |= {f"w{k}": (out, channels, 3, 3), f"b{k}": (out,)}
        made, read = ("y" if k == 3 else f"y{k}"), [value, f"w{k}", f"b{k}"]
        nodes.append(helper.make_node("Conv", read, [f"c{k}"], strides=[2, 2], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [made]))
        channels, value = out, made
    return nodes, weights, (1, 32, 40, 40)


def _mobile() -> Part:
    """Return a network of depthwise and pointwise convolutions, of images of 96 x 96."""
    helper: Any = importlib.import_module("onnx.helper")
    nodes, weights = list[Any](), dict[str, Sizes]()
    steps = [(3, 32, 2, 1, 3)]  # channels read and made, stride, groups, and the window's width
    for read, made, stride in MOBILE:
        steps += [(read, read, stride, read, 3), (read, made, 1, 1, 1)]
    for k, (read, made, stride, groups, width) in enumerate(steps):
        weights |= {f"w{k}": (made, read // groups, width, width), f"b{k}": (made,)}
        inputs = [f"v{k}" if k else "x", f"w{k}", f"b{k}"]
        extra = {"strides": [stride] * 2, "pads": [width // 2] * 4, "group": groups}
        nodes.append(helper.make_node("Conv", inputs, [f"c{k}"], **extra))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"v{k + 1}"]))
    nodes.append(helper.make_node("GlobalAveragePool", [f"v{len(steps)}"], ["y"]))
    return nodes, weights, (1, 3, 96, 96)


def _built(
    folder: Path, nodes: Sequence[Any], weights: Mapping[str, Sizes], image: Sizes
) -> tuple[Path, Mapping[str, Array]]:
    """Return the file of a model from ``x`` to ``y``, and its input."""
    onnx: Any = importlib.import_module("onnx")
    rng = np.random.default_rng(1)
    drawn = {n: (rng.standard_normal(s) * 0.1).astype(np.float32) for n, s in weights.items()}
    make, dtype = onnx.helper, onnx.TensorProto.FLOAT
    x, y = (make.make_tensor_value_info(n, dtype, s) for n, s in (("x", image), ("y", None)))
    initial = [onnx.numpy_helper.from_array(v, n) for n, v in drawn.items()]
    graph = make.make_graph(nodes, "model", [x], [y], initial)
    path, opset = folder / "model.onnx", make.make_opsetid("", 17)
    onnx.save_model(make.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path, {"x": rng.standard_normal(image).astype(np.float32)}


def least(runs: Mapping[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Return the least time of each run, which take turns."""
    found = dict.fromkeys(runs, float("inf"))
    for turn in range(turns):
        for name, run in runs.items():
            if turn > 1 and found[name] > SLOW:
                continue
            before = time.perf_counter()
            run()
            found[name] = min(found[name], time.perf_counter() - before)
    return found


def measure(name: str, path: Path, feeds: Mapping[str, Array], turns: int, slow: bool) -> list[str]:
    """Return a row of the table."""
    fast = HostFast(checked=False)
    onnxruntime: Any = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = fast.threads, 3
    session: Any = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    known = {i.name for i in session.get_inputs()}
    program = dd.load(path)
    assert isinstance(program, dd.Program)
    before = time.perf_counter()
    quick = dd.compile(program, engine=fast)
    compiled = time.perf_counter() - before
    runs: dict[str, Callable[[], object]] = {
        "onnxruntime": lambda: session.run(None, {k: v for k, v in feeds.items() if k in known}),
        "host-fast": lambda: quick(**feeds),
    }
    if slow:
        usual = dd.compile(program, engine="host")
        runs["host"] = lambda: usual(**feeds)
    ms = {n: 1e3 * s for n, s in least(runs, turns).items()}
    ratio = ms["host-fast"] / ms["onnxruntime"]
    host = f"{ms['host']:.0f}" if slow else "-"
    return [
        name, f"{ms['onnxruntime']:.1f}", f"{ms['host-fast']:.1f}", f"{ratio:.1f}", host,
        f"{compiled:.1f}",
    ]  # fmt: skip


def drawn(count: int) -> tuple[int, list[int]]:
    """Return how many elements of drawn programs were compared, and the seeds that differ."""
    fast, host = HostFast(), Host()
    compared, differ = 0, list[int]()
    for seed in range(count):
        m = graphs.graph(seed, symbolic=seed % 2 == 1)
        inputs = graphs.operands(m, seed, graphs.bindings(m, seed))
        c = compile(m)
        one, other = (levels.runner(c, e)(e, inputs) for e in (fast, host))
        compared += sum(a.size for a in one)
        if not all(map(graphs.same_bits, one, other)):
            differ.append(seed)
    return compared, differ


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", default="", help="only models whose name contains this")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--drawn", type=int, default=0, help="compare bits over so many programs")
    parser.add_argument("--without-host", action="store_true", help="leave out TinyCC")
    parser.add_argument("--save", type=Path)
    a = parser.parse_args(argv)
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for name, path, feeds in models(a.k):
        row = measure(name, path, feeds, a.turns, not a.without_host)
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    if a.save:
        a.save.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if a.drawn:
        compared, differ = drawn(a.drawn)
        print(f"{a.drawn} programs, {compared} elements, seeds that differ: {differ}")
        return 1 if differ else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
