"""Files that are written wholly or not at all, and launches whose numbers are told or refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from didyma.codegen.runtime import disk, geometry
from didyma.codegen.runtime.engine import Engine, Fault
from didyma.fuzz.parts.told import code_of, differ
from didyma.refimpl.ir.expr import ONE, index
from didyma.refimpl.ir.kernel import KernelText, Signature, TensorMap
from didyma.refimpl.ir.loop import Barrier, Var
from didyma.refimpl.ir.types import DType

NAMES = ("a.txt", "b", "c.bin")
TEXTS = ("", "one\n", "größe\r\n", "\ufefftwo")
PIECE = 8  # elements to whose multiples the offset and the steps of a map are


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with files, or with the numbers of a launch."""
    del engine
    yield from r.choice((_files, _read, _described, _told))(r)


def _files(r: Random) -> Iterator[str]:
    """All files are written, or none; what was there stays as it was."""
    with TemporaryDirectory() as place:
        folder = Path(place) / r.choice(("there", "new"))
        before = {n: b"before" for n in NAMES if r.random() < 0.5}
        if folder.name == "there":
            folder.mkdir()
            for name, data in before.items():
                (folder / name).write_bytes(data)
        else:
            before = {}
        given = {n: r.choice((r.choice(TEXTS), b"\x00\xff")) for n in r.sample(NAMES, 2)}
        whole = {n: x if isinstance(x, bytes) else x.encode() for n, x in given.items()}
        if folder.exists() and r.random() < 0.3:
            taken = r.choice([*given])
            (folder / taken).unlink(missing_ok=True)
            (folder / taken).mkdir()
            before.pop(taken, None)
            yield from differ(code_of(disk.write_files, folder, given), "unwritable", "a folder")
            (folder / taken).rmdir()
            want = before
        else:
            disk.write_files(folder, given)
            want = {**before, **whole}
        found = {p.name: p.read_bytes() for p in folder.iterdir()}
        yield from differ(found, want, f"files after {given} on {before}")
        lost = Path(place) / "nowhere" / "a"
        for call in (disk.must_have_folder, disk.must_take_file, disk.must_take_files):
            yield from differ(code_of(call, lost), "unwritable", f"{call.__name__} {lost}")
        yield from differ(code_of(disk.write_file, lost, "x"), "unwritable", "a file in no folder")
        yield from differ(code_of(disk.write_files, lost, given), "unwritable", "files in none")
        yield from differ(code_of(disk.must_take_file, folder), "unwritable", "a folder as a file")
        disk.must_take_files(lost, parents=True)
        empty = lost.is_dir(), len([*lost.iterdir()])
        yield from differ(empty, (True, 0), "a folder that is made")
        name, content = r.choice([*given.items()])
        one = disk.write_file(lost / name, content)
        yield from differ((one, one.read_bytes()), (lost / name, whole[name]), "one file")
        yield from differ(len([*lost.iterdir()]), 1, "files beside one that is written")


def _read(r: Random) -> Iterator[str]:
    """A text is read as UTF-8, without the mark at its beginning, if it has one."""
    with TemporaryDirectory() as place:
        path = Path(place) / "x"
        yield from differ(code_of(disk.read_text, path), "unreadable-file", "no file")
        yield from differ(code_of(disk.read_text, Path(place)), "unreadable-file", "a folder")
        text = r.choice(TEXTS)
        path.write_bytes(text.encode())
        want = text.removeprefix("\ufeff").replace("\r\n", "\n")
        yield from differ(disk.read_text(path), want, f"{text!r} as it is read")
        path.write_bytes(text.encode() + b"\xff")
        yield from differ(code_of(disk.read_text, path), "unreadable-file", "no UTF-8")


def _described(r: Random) -> Iterator[str]:
    """A map has elements, and an offset and steps that are whole pieces, where blocks run."""
    numbers = [r.choice((0, 8, 16)) for _ in range(3)]
    extents = [r.choice((1, 5)) for _ in range(3)]
    spoilt = r.choice(("", "", "extent", "start"))
    if spoilt == "extent":
        extents[r.randrange(3)] = r.choice((0, -1))
    elif spoilt == "start":
        numbers[r.randrange(3)] += r.choice((1, 4, -3))
    offset, near, far = numbers
    x, y, z = extents
    m = TensorMap("m", "b", offset, (x, y, z), (near, far), 64)
    blocks = r.choice((0, 1, 2, 2))
    s = Signature("k", (("a", DType.F32), ("b", DType.F16)), (index(4), index(64)), ("a",), (),
                  (index(blocks), ONE, ONE), (32, 1, 1), maps=(m,))  # fmt: skip
    wrong = bool(spoilt) and blocks > 0
    code = code_of(geometry.geometry, s, {})
    yield from differ(code, "launch-failed" if wrong else "", f"{m} of {blocks} blocks")
    if not wrong:
        (d,) = geometry.geometry(s, {}).maps
        told = (d.buffer, d.offset, d.x, d.y, d.z, d.near, d.far, d.rows)
        yield from differ(told, (1, *numbers[:1], *extents, *numbers[1:], 64), f"what {m} tells")


def _told(r: Random) -> Iterator[str]:
    """A launch gets as many numbers as it has, of their dtypes; faults name their line."""
    kinds = [r.choice((DType.F32, DType.I8, DType.U16, DType.F64)) for _ in range(r.randint(0, 3))]
    given = [r.choice((0, 1, 5, 100)) for _ in kinds]
    s = Signature("k", (), (), (), ("n",), (Var("n"), ONE, ONE), (1, 1, 1),
                  tuple((f"s{i}", t) for i, t in enumerate(kinds)))  # fmt: skip
    want = [(np.dtype(t.numpy), x) for t, x in zip(kinds, given, strict=True)]
    got = [(x.dtype, x.item()) for x in geometry.numbers(s, given)]
    yield from differ(got, want, f"numbers of {kinds}")
    pairs = zip(kinds, given, strict=True)
    words = [int.from_bytes(t.numpy.type(x).tobytes(), "little") for t, x in pairs]
    yield from differ(geometry.words(s, given), words, f"words of {given} as {kinds}")
    for some in ([*given, 1], given[1:] if given else [2]):
        code = code_of(geometry.numbers, s, some)
        yield from differ(code, "input-count", f"{len(some)} numbers of {len(kinds)}")
    rows = [f"  row {i};" for i in range(r.randint(1, 4))]
    text = KernelText("\n".join(rows), (s,), ((1, Barrier()),))
    yield from differ(geometry.signature(text, "k") is s, True, "the kernel k is found")
    yield from differ(code_of(geometry.signature, text, "j"), "unknown-kernel", "the kernel j")
    line = r.randint(0, len(rows) + 1)
    fault = geometry.located(Fault("race", "k", "", line=line), text)
    source = rows[line - 1].strip() if 0 < line <= len(rows) else ""
    yield from differ(
        (fault.source, bool(fault.node)), (source, line == 1), f"a fault on line {line}"
    )
