"""``didyma run`` and ``didyma artifact check``: run a built program, and check that it is whole."""

from __future__ import annotations

import hashlib
import json as json_
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from didyma.artifacts.manifest import check as checked
from didyma.refimpl.errors import DidymaError

if TYPE_CHECKING:
    from didyma.artifacts.load import Loaded
    from didyma.refimpl.ir.types import Array


def check(folder: Path, json: bool) -> int:
    """Print what an artifact is, whose files are as they were written; errors as of ``check``."""
    artifact = checked(folder)
    m = artifact.manifest
    if json:
        print(json_.dumps({k: v for k, v in m.items() if k != "sha256"}, indent=2))
        return 0
    targets = (", ".join(about.get("machines", [name])) for name, about in m["targets"].items())
    print(f"{m['program']}, built by Didyma {m['didyma']} for {'; '.join(targets)}")
    for what in ("inputs", "outputs"):
        for v in m[what]:
            print(f"{what[:-1]:6}  {v['name']}: {v['dtype']}[{', '.join(v['shape'])}]")
    for name, entry in m["files"].items():
        print(f"{entry['role']:9}  {name}: {entry['bytes']:,} bytes, sha256 {entry['sha256'][:16]}")
    print(f"all {len(artifact.files)} files are as they were written")
    return 0


def run(
    folder: Path,
    target: str,
    values: Sequence[str],
    given: Sequence[str],
    seed: int,
    out: Path | None,
    walk: bool,
    finite: bool,
    synchronous: bool,
    dump: Path | None,
    json: bool,
) -> int:
    """Run an artifact on inputs and print what comes out; the results go to a folder as ``.npy``.

    It runs for a ``target`` that it was built for: if that is empty, on the CPU if it can.  With
    ``walk`` the program's JSON is run line by line rather than the module, and nothing is watched.
    With ``synchronous`` each launch has ended before the next.  The folder ``dump`` gets the
    results of each launch, numbered, under the names of the values.  Inputs that are not given are
    random numbers.  Errors: those of ``load``; ``bad-option``, ``unreadable-file``, and what the
    module refuses; ``not-finite`` with ``finite``.
    """
    from didyma.artifacts.load import load
    from didyma.codegen.runtime.disk import must_take_files

    program = load(folder, target)
    inputs = _inputs(program, values, given, seed)
    if walk and (finite or synchronous or dump is not None):
        got, others = "one of them beside it", "--finite, --synchronous and --dump"
        raise DidymaError("bad-option", "--walk", got=got, want=f"--walk without {others}")
    if dump is not None:
        must_take_files(dump)
    watch = None if dump is None else program.runtime.dumped(dump)
    asked = {"finite": finite, "synchronous": synchronous, "watch": watch}
    results = program.walk(inputs) if walk else program(inputs, **asked)
    rows = [
        {"name": v["name"], "dtype": v["dtype"], "shape": list(a.shape), "sha256": _hash(a)}
        for v, a in zip(program.artifact.manifest["outputs"], results, strict=True)
    ]
    if out is not None:
        pairs = zip(rows, results, strict=True)
        _save(out, {f"{i}-{row['name']}.npy": a for i, (row, a) in enumerate(pairs)})
    if json:
        print(json_.dumps({"outputs": rows}, indent=2))
        return 0
    for row in rows:
        print(f"out  {row['name']}: {row['dtype']}{row['shape']}, sha256 {row['sha256'][:16]}")
    return 0


def _hash(a: Array) -> str:
    return hashlib.sha256(a.tobytes()).hexdigest()


def _save(folder: Path, arrays: Mapping[str, Array]) -> None:
    from io import BytesIO

    import numpy as np

    from didyma.codegen.runtime import disk

    files: dict[str, str | bytes] = {}
    for name, a in arrays.items():
        stream = BytesIO()
        np.lib.format.write_array(stream, a, allow_pickle=False)
        files[name] = stream.getvalue()
    disk.write_files(folder, files)


def _inputs(program: Loaded, values: Sequence[str], given: Sequence[str], seed: int) -> list[Array]:
    """Return the inputs of a call: those of the items ``NAME=FILE.npy``, others at random."""
    m, space = program.artifact.manifest, program.module
    files = {name: _array(v, item) for item, v, name in _items(m, values)}
    sizes = {name: min(max(lo, 2), hi) for name, (lo, hi) in space["DIMS"].items()}
    told = dict[str, int]()
    for v in m["inputs"]:
        if v["name"] in files:
            pairs = zip(v["shape"], files[v["name"]].shape, strict=False)
            told |= {d: n for d, n in pairs if d in sizes}
    sizes |= told
    for item in given:
        name, _, value = item.partition("=")
        if name not in sizes or not value.isdecimal():
            want = f"NAME=N with NAME of: {', '.join(sizes) or 'no sizes'}"
            raise DidymaError("bad-option", f"--dim {item}", got=item, want=want)
        if name in told and sizes[name] != int(value):
            want = f"{name} = {sizes[name]}, which an input has"
            raise DidymaError("bad-option", f"--dim {item}", got=item, want=want)
        sizes[name] = int(value)
    shapes = space["shapes"](*sizes.values())
    drawn: list[Array] = program.runtime.random_inputs(space["INPUTS"], shapes, seed)
    return [files.get(v["name"], a) for v, a in zip(m["inputs"], drawn, strict=True)]


def _items(m: Mapping[str, Any], values: Sequence[str]) -> list[tuple[str, Mapping[str, Any], str]]:
    named = {v["name"]: v for v in m["inputs"]}
    found: list[tuple[str, Mapping[str, Any], str]] = []
    for item in values:
        name, _, value = item.partition("=")
        if name not in named or not value.endswith(".npy"):
            want = f"NAME=FILE.npy with NAME of: {', '.join(named) or 'no inputs'}"
            raise DidymaError("bad-option", f"--input {item}", got=item, want=want)
        found.append((item, named[name], name))
    return found


def _array(v: Mapping[str, Any], item: str) -> Array:
    """Return the array of a file; NumPy's files hold dtypes that it does not know as bytes."""
    from didyma.commands.arrays import array_of
    from didyma.refimpl.ir.types import DType

    array = array_of(Path(item.partition("=")[2]), f"--input {item}")
    kind = DType(v["dtype"]).numpy
    same = array.dtype.kind == "V" and array.dtype.itemsize == kind.itemsize
    return array.view(kind) if same else array
