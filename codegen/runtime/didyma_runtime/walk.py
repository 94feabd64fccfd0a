"""Run a program from its JSON, line by line: what the module beside it does as Python.

It shares with the module how inputs are checked and kernels are launched, and nothing else.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from . import rows
from .buckets import Buckets, Sizes
from .checks import (
    Wanted,
    arrays,
    equal,
    floordiv,
    floormod,
    in_range,
    number,
    routine,
    solve,
    taken,
    truth,
)
from .checks import size as require_size
from .dtypes import Array, beside, checked, part, strided
from .externs import Extern
from .kernels import Kernel
from .loading import Loaded, load
from .maps import Described
from .refused import Refused

FORMAT, VERSION = "didyma-program", 5
Json = Mapping[str, Any]
T = TypeVar("T")
_OPS: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "min": min, "max": max,
    "floordiv": floordiv, "floormod": floormod,
}  # fmt: skip


def program(path: Path) -> Callable[[list[Any]], list[Array]]:
    """Load a program of a JSON file, and what it names beside it, as ``read`` does."""
    return read(path.read_bytes(), partial(beside, str(path)), str(path))


def read(
    data: bytes, others: Callable[[str, str], bytes], where: str = "program"
) -> Callable[[list[Any]], list[Array]]:
    """Load a program from its JSON; return a function of its inputs.

    ``others`` returns the bytes of another file by its name and what it is.  The function takes a
    list of arrays, which it empties, and returns the results.  Errors: as of ``load`` of a module;
    ``not-an-artifact``, ``artifact-newer``.
    """
    p = json.loads(data)
    if p.get("format") != FORMAT:
        raise Refused("not-an-artifact", where, got="other JSON", want=f"format {FORMAT}")
    if p["version"] > VERSION:
        raise Refused("artifact-newer", where, got=f"format {p['version']}", want=f"{VERSION}")
    objects = {machine: (file, digest) for machine, (file, digest) in p["objects"].items()}
    table = {name: _kernel(k) for name, k in p["kernels"].items()}
    externs = {name: _extern(x) for name, x in p.get("externs", {}).items()}
    devices = p.get("devices", ())
    places = [p["main"]["values"][name]["device"] for name in p["constants"]]
    given = objects, table, _constants(p, others), "", externs
    loaded = load(others, *given, devices, places)
    run = partial(_call, p, loaded)
    return partial(_padded, p, run) if "buckets" in p else run


def value(size: Any, sizes: Mapping[str, int]) -> int:
    """Return the value of a size.

    >>> value(["add", 1, ["mul", 2, "n"]], {"n": 3})
    7
    """
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return sizes[size]
    op, lhs, rhs = size
    return _OPS[op](value(lhs, sizes), value(rhs, sizes))


def _values(row: Sequence[Any], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(value(size, sizes) for size in row)


def _kernel(k: Json) -> Kernel:
    return Kernel(
        buffers=tuple((name, dtype) for name, dtype in k["buffers"]),
        outputs=tuple(k["outputs"]),
        dims=tuple(k["dims"]),
        grid=partial(_values, k["grid"]),
        sizes=partial(_values, k["sizes"]),
        block=tuple(k["block"]),
        shapes=lambda sizes: tuple(_values(row, sizes) for row in k["shapes"]),
        nodes=tuple(k["nodes"]),
        shared=k.get("shared", 0),
        maps=lambda sizes: tuple(Described(*_values(row, sizes)) for row in k.get("maps", ())),
    )


def _extern(x: Json) -> Extern:
    def shapes(sizes: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
        return tuple(_values(row, sizes) for row in x["shapes"])

    def file(name: str) -> tuple[str, str] | None:
        return tuple(x[name]) if x[name] else None

    return Extern(
        source=tuple(x["source"]),
        symbol=x["symbol"],
        out=x["out"],
        sizes=tuple(x["sizes"]),
        inputs=x["inputs"],
        dtypes=tuple(x["dtypes"]),
        shapes=shapes,
        library=file("library"),
        constants=file("constants"),
    )


def _constants(p: Json, others: Callable[[str, str], bytes]) -> list[Array]:
    data = b""
    if p["weights"]:
        name, digest = p["weights"]
        data = checked(others(name, "the program's weights"), digest, name)
    return [_constant(c, data) for c in p["constants"].values()]


def _constant(c: Json, weights: bytes) -> Array:
    if "offset" in c:
        return part(weights, c["dtype"], tuple(c["shape"]), c["offset"])
    raw = base64.b64decode(c["data"])
    return part(raw, c["dtype"], tuple(c["shape"]), 0)


def _padded(p: Json, run: Callable[[list[Any]], list[Array]], args: list[Any]) -> list[Array]:
    """Run a program on inputs that are padded to its buckets."""
    told, results = p["buckets"]["told"], p["buckets"]["results"]
    main = p["main"]
    types = [main["values"][v] for v in main["inputs"]]
    count = len(types) - len(told)

    def bind(given: list[Any]) -> dict[str, int]:
        return _bound(p, types, arrays(given, _wanted(types)))

    def shapes(s: Sizes) -> list[tuple[int, ...]]:
        return [_values(t["shape"], s) for t in types[:count]]

    def cuts(s: Sizes) -> list[list[int | None]]:
        return [[None if d is None else value(d, s) for d in row] for row in results]

    made = Buckets(p["buckets"]["sizes"], len(told), shapes, partial(_values, told), cuts)
    return made.call(run, args, count, bind)


def _wanted(types: Sequence[Json]) -> list[Wanted]:
    return [(t["name"], t["dtype"], len(t["shape"])) for t in types]


def _call(p: Json, loaded: Loaded, args: list[Any]) -> list[Array]:
    with loaded.engine.current():
        return _results(p, loaded, args)


def _results(p: Json, loaded: Loaded, args: list[Any]) -> list[Array]:
    main = p["main"]
    types = [main["values"][v] for v in main["inputs"]]
    given = arrays(taken(args), _wanted(types))
    sizes = _bound(p, types, given)
    values = {
        v: _on(loaded.engine, t["device"], partial(loaded.engine.upload, a))
        for v, t, a in zip(main["inputs"], types, given, strict=True)
    }
    values |= dict(zip(p["constants"], loaded.weights, strict=True))
    shown = {x["of"] for x in main["lines"] if x["line"] == "Strided"}
    wanted = {*main["lines"][-1]["values"], *shown}
    kept = {v: a for v, a in zip(main["inputs"], given, strict=True) if v in wanted}
    del given
    found = Walk(p, main, loaded, sizes, values, kept).lines(main["lines"])
    return [] if found is None else found


def _on(engine: Any, device: str, work: Callable[[], T]) -> T:
    """Do work on a device, which has a name where the engine has several."""
    if not device:
        return work()
    with engine.on(device):
        return work()


def _require_ranges(p: Json, told: Sequence[Json], sizes: Mapping[str, int]) -> None:
    names = {t["symbol"] for t in told}
    for name, (lo, hi) in p["sizes"].items():
        if name in names:
            in_range(name, sizes[name], int(lo), int(hi))


def _bound(p: Json, types: Sequence[Json], given: list[Any]) -> dict[str, int]:
    """Return the sizes that the inputs' shapes and strides tell, all checked.

    Inputs that have strides become rows of elements.
    """
    sizes: dict[str, int] = {}
    for told in p["bind"]:
        lines = [
            (given[at].shape[axis], value(slope, sizes), value(offset, sizes))
            for at, axis, slope, offset in told["places"]
        ]
        at, axis, *_ = told["places"][0]
        where = f"{types[at]['name']}, axis {axis}"
        sizes[told["symbol"]] = solve(where, *lines[0], *lines[1:])
    _require_ranges(p, p["bind"], sizes)
    for t, a in zip(types, given, strict=True):
        for axis, (size, got) in enumerate(zip(t["shape"], a.shape, strict=True)):
            want = value(size, sizes)
            require_size(t["name"], axis, got, want, str(want))
    found: dict[int, tuple[int | None, ...]] = {
        i: rows.strides(t["name"], a)
        for i, (t, a) in enumerate(zip(types, given, strict=True))
        if "strides" in t
    }
    for told in p["strides"]:
        places = (
            (found[int(at)][int(axis)], value(slope, sizes), value(offset, sizes))
            for at, axis, slope, offset in told["places"]
        )
        sizes[told["symbol"]] = rows.pitch(told["least"], *places)
    _require_ranges(p, p["strides"], sizes)
    for i, got in found.items():
        name, wanted = types[i]["name"], _values(types[i]["strides"], sizes)
        for axis, (step, want) in enumerate(zip(got, wanted, strict=True)):
            rows.stride(name, axis, step, want, str(want))
        span, offset = value(types[i]["span"], sizes), value(types[i]["offset"], sizes)
        given[i] = rows.row(given[i], span, offset)
    return sizes


def _several(lines: Sequence[Json]) -> bool:
    """Return whether lines use any stream but the first."""
    return any(
        x["line"] == "Wait"
        or x.get("stream", 0) != 0
        or any(_several(x.get(block, ())) for block in ("then", "other", "test", "body"))
        for x in lines
    )


class Walk:
    """A run of the lines of a program or of one of its functions.

    ``values`` are the buffers of values by name; of those that own their bytes or share an
    allocation, ``_owners`` are the allocations; ``arrays`` are those that results share.  What no
    name holds any more is freed by Python.  Where a block or a function begins or ends, all streams
    wait for one another, if there are several.
    """

    def __init__(
        self,
        p: Json,
        body: Json,
        loaded: Loaded,
        sizes: dict[str, int],
        values: dict[str, Any],
        arrays: dict[str, Array] | None = None,
    ) -> None:
        self._p, self._body, self._loaded, self._sizes = p, body, loaded, sizes
        self._engine = loaded.engine
        self._values, self._owners = values, dict(values)
        self._arrays = arrays or {}
        self._shows: dict[str, Json] = {}
        bodies = (p["main"], *p["functions"].values())
        self._streams = any(_several(b["lines"]) for b in bodies)

    def lines(self, lines: Sequence[Json]) -> list[Array] | None:
        """Run lines; return the results where the last of them returns some."""
        found = None
        for line in lines:
            found = self._run(line)
        return found

    def _join(self) -> None:
        if self._streams:
            self._engine.join()

    def _block(self, lines: Sequence[Json]) -> None:
        self._join()
        self.lines(lines)
        self._join()

    def _size(self, size: Any) -> int:
        return value(size, self._sizes)

    def _bytes(self, v: str) -> int:
        return self._size(self._body["values"][v]["bytes"])

    def _device(self, v: str) -> str:
        found: str = self._body["values"][v]["device"]
        return found

    def _own(self, v: str, buffer: Any, owner: Any = None) -> None:
        self._values[v], self._owners[v] = buffer, buffer if owner is None else owner

    def _run(self, line: Json) -> list[Array] | None:
        run: Callable[[Json], list[Array] | None] = getattr(self, f"_{line['line'].lower()}")
        return run(line)

    # ---- memory

    def _allocate(self, x: Json) -> None:
        allocate = partial(self._engine.allocate, self._bytes(x["value"]))
        self._own(x["value"], _on(self._engine, self._device(x["value"]), allocate))

    def _free(self, x: Json) -> None:
        del self._values[x["value"]], self._owners[x["value"]]

    def _reuse(self, x: Json) -> None:
        self._own(x["value"], self._values.pop(x["over"]), self._owners.pop(x["over"]))

    def _placementallocate(self, x: Json) -> None:
        owner = self._owners[x["over"]]
        nbytes = self._bytes(x["value"])
        self._own(x["value"], self._engine.view(owner, self._size(x["offset"]), nbytes), owner)

    def _arena(self, x: Json) -> None:
        allocate = partial(self._engine.allocate, self._size(x["nbytes"]))
        self._own(f"arena {x['name']}", _on(self._engine, x["device"], allocate))

    def _place(self, x: Json) -> None:
        arena, nbytes = self._values[f"arena {x['arena']}"], self._bytes(x["value"])
        self._own(x["value"], self._engine.view(arena, self._size(x["offset"]), nbytes), arena)

    def _view(self, x: Json) -> None:
        of, nbytes = self._values[x["of"]], self._bytes(x["value"])
        view = self._engine.view(of, self._size(x["offset"]), nbytes)
        self._own(x["value"], view, self._owners[x["of"]])

    def _strided(self, x: Json) -> None:
        self._shows[x["value"]] = x

    def _carry(self, x: Json) -> None:
        moved = [(v, self._values[new], self._owners[new], new) for v, new in x["values"]]
        for _, _, _, new in moved:
            del self._values[new], self._owners[new]
        for v, buffer, owner, _ in moved:
            self._own(v, buffer, owner)
        told = {name: self._size(size) for name, size in x["dims"]}
        for name, got in told.items():
            self._set(name, got)

    def _set(self, name: str, got: int) -> None:
        lo, hi = self._body["ranges"][name]
        in_range(name, got, int(lo), int(hi))
        self._sizes[name] = got

    # ---- work

    def _launch(self, x: Json) -> None:
        self._launched(x, x["kernel"], x["args"])

    def _dispatch(self, x: Json) -> None:
        self._launched(x, *x["variants"][0])

    def _launched(self, x: Json, kernel: str, args: Sequence[str]) -> None:
        for v, source in x["inplace"]:
            self._own(v, self._values[source], self._owners[source])
        kernels = self._loaded.kernels
        assert kernels is not None
        given = kernel, [self._values[v] for v in args], self._sizes, x["stream"]
        _on(self._engine, self._device(args[0]) if args else "", partial(kernels.launch, *given))

    def _wait(self, x: Json) -> None:
        self._engine.wait(x["stream"], x["on"])

    def _copy(self, x: Json) -> None:
        self._engine.copy(self._values[x["value"]], self._values[x["source"]])

    def _assert(self, x: Json) -> None:
        equal(self._size(x["lhs"]), self._size(x["rhs"]), x["message"])

    def _bind(self, x: Json) -> None:
        self._set(x["dim"], number(self._engine, self._values[x["value"]]))

    def _call(self, x: Json) -> None:
        body = self._p["functions"][x["callee"]]
        names = (*body["inputs"], *body["outputs"])
        given = (self._values[v] for v in (*x["inputs"], *x["outputs"]))
        values = dict(zip(names, given, strict=True))
        Walk(self._p, body, self._loaded, dict(self._sizes), values)._block(body["lines"])

    def _extern(self, x: Json) -> None:
        run = routine(self._loaded.externs, x["name"])
        buffers = ([self._values[v] for v in x[side]] for side in ("outputs", "inputs"))
        attrs = {name: _values(row, self._sizes) for name, row in x["attrs"] if name == "sizes"}
        device = self._device(x["outputs"][0]) if x["outputs"] else ""
        _on(self._engine, device, partial(run, self._engine, *buffers, attrs))

    def _if(self, x: Json) -> None:
        self._block(x["then" if truth(self._engine, self._values[x["cond"]]) else "other"])

    def _while(self, x: Json) -> None:
        while True:
            self._block(x["test"])
            if not truth(self._engine, self._values[x["cond"]]):
                return
            self._block(x["body"])

    def _repeat(self, x: Json) -> None:
        self._join()
        for index in range(self._size(x["extent"])):
            self._sizes[x["index"]] = index
            self._block(x["body"])

    def _return(self, x: Json) -> list[Array]:
        self._join()
        return [self._result(v) for v in x["values"]]

    def _result(self, v: str) -> Array:
        if v in self._arrays:
            return self._arrays[v]
        t = self._body["values"][v]
        shape = _values(t["shape"], self._sizes)
        if v in self._shows:
            x = self._shows[v]
            steps, at = _values(x["strides"], self._sizes), self._size(x["offset"])
            self._arrays[v] = strided(self._result(x["of"]), shape, steps, at)
        else:
            self._arrays[v] = self._engine.download(self._values[v], t["dtype"], shape)
        return self._arrays[v]
