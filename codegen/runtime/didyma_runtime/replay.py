"""Calls of a module that are made again as they were, with no more work in Python than one call.

The first call with inputs of some shapes runs the module's ``run`` on an engine that records what
it it is asked for: a tape of launches, allocations and copies.  Where nothing else was done, later
calls with such inputs run the tape, by the function ``replay__`` beside the kernels, as a CUDA
graph does on a GPU.  A program that reads a value to decide what comes next, or that calls a
routine, runs line by line as before, and so does one whose inputs are copied before they are read.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from . import cuda
from .checks import taken
from .devices import OWN, DeviceKernels, Devices
from .dtypes import Array
from .graphs import Graph, Lies, captured
from .host import FAULT, FAULT_AT, LAUNCH, Host, Kernels
from .recorder import (
    INPUT,
    MEMORY,
    NOWHERE,
    OUTPUT,
    Copied,
    Given,
    Launched,
    Recorder,
    Recording,
    Row,
    Step,
    Taken,
)
from .watch import LOG, Line

MOST_TAPES = 64  # that a module keeps
MOST_GRAPHS = 16  # for each has memory of its own
MOST_STEPS = 4096  # of a tape
Run = Callable[..., list[Any]]
_LAUNCH, _TAKE, _GIVE, _COPY, _DROP = range(5)
_PYTHON = (
    "PyList_GetItem", "PyList_Size", "PyList_SetSlice", "PyList_New", "PyList_SetItem", "Py_IncRef",
    "Py_DecRef", "PyObject_CallObject", "PyLong_AsVoidPtr", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyMem_RawMalloc", "PyMem_RawFree", "memcpy", "PyErr_Clear",
)  # fmt: skip
_EMPTY = 184  # of the functions of NumPy
_ONE_ARGUMENT = 8  # METH_O
_ROW_MAJOR = 1  # of an array's flags


def _address(name: str) -> int:
    """Return where a function of Python or of the C library is."""
    library = ctypes.pythonapi if name.startswith("Py") else ctypes.CDLL(None)
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _second() -> bool:
    """Return whether this is NumPy 2."""
    return np.lib.NumpyVersion(np.__version__) >= "2.0.0"


def _itemsize() -> int:
    """Return where a dtype has the bytes of an element: ``elsize`` of ``PyArray_Descr``."""
    return 40 if _second() else 32


def _empty() -> int:
    """Return where NumPy's ``PyArray_Empty`` is, by its table of functions."""
    core = "numpy._core" if _second() else "numpy.core"
    capsule = import_module(f"{core}._multiarray_umath")._ARRAY_API
    table = ctypes.pythonapi.PyCapsule_GetPointer
    table.restype, table.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    found = table(capsule, None)
    return ctypes.c_void_p.from_address(found + 8 * _EMPTY).value or 0


class _Method(ctypes.Structure):
    """A method of CPython, as ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


class _Head(ctypes.Structure):
    """How an array of NumPy begins."""

    _fields_ = (
        ("references", ctypes.c_int64), ("type", ctypes.c_void_p), ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p), ("base", ctypes.c_void_p), ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )  # fmt: skip


@cache
def _known_layout() -> bool:
    """Return whether arrays begin as ``replay__`` believes."""
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    a = np.zeros((3, 5), np.int16)
    head = _Head.from_address(id(a))
    found = head.type, head.data, head.rank, list(head.shape[:2]), head.dtype
    layout = found == (id(np.ndarray), a.ctypes.data, 2, [3, 5], id(a.dtype))
    sizes = [
        ctypes.c_int32.from_address(id(np.dtype(t)) + _itemsize()).value for t in ("i2", "c16")
    ]
    layout = layout and sizes == [2, 16]
    return layout and head.flags & _ROW_MAJOR == 1 and not _Head.from_address(id(a.T)).flags & 1


def nothing(args: list[Any]) -> list[Array] | None:
    """Replay no call."""
    del args
    return None


class Tapes:
    """The calls of a module that were recorded.

    ``replay`` runs the latest: it empties the list of arguments and returns the results, or
    returns None for other arguments.  ``traced`` runs the module line by line, as ``run`` does, and
    tells of the lines where that is asked.  ``laid`` are the numbers of inputs that have strides.
    """

    def __init__(
        self, run: Run, traced: Run, lines: Mapping[int, Line], laid: Sequence[int] = ()
    ) -> None:
        self._laid = frozenset(laid)
        self._run, self._lines, self._file = traced, lines, run.__code__.co_filename
        self._known: dict[tuple[Any, ...], Tape | Graph | None] = {}
        self._tried: set[tuple[Any, ...]] = set()  # inputs of calls that were captured, or were not
        self.replay: Callable[[list[Any]], list[Array] | None] = nothing

    def run(
        self,
        engine: Host | Devices,
        given: list[Any],
        kernels: Kernels | DeviceKernels | None,
        weights: Any,
        externs: Any,
    ) -> list[Any]:
        """Run as the module's ``run`` does, by a tape of such inputs or so that there is one.

        The list of inputs is emptied, so that none stays after its last use.
        """
        key = tuple(
            self._lies(i, a) if type(a) is np.ndarray else None for i, a in enumerate(given)
        )
        if LOG or kernels is None or None in key or not kernels.replays:
            return self._run(engine, taken(given), kernels, weights, externs)
        if isinstance(kernels, cuda.Kernels) and not externs:
            return self._on_gpu(key, engine, given, kernels, weights)
        if not _known_layout():
            return self._run(engine, taken(given), kernels, weights, externs)
        if key in self._known:
            tape = self._known[key]
            if tape is not None:
                self.replay = tape.replay
                if (found := tape.replay(given)) is not None:
                    return found
        elif len(self._known) < MOST_TAPES:
            return self._recorded(key, engine, given, kernels, weights, externs)
        return self._run(engine, taken(given), kernels, weights, externs)

    def _lies(self, number: int, a: Array) -> Lies:
        return a.shape, a.dtype, a.strides if number in self._laid else None

    def _on_gpu(
        self, key: Any, engine: Any, given: list[Any], kernels: cuda.Kernels, weights: Any
    ) -> list[Any]:
        """Run line by line, and capture what a second call with such inputs launches."""
        known, again = self._known.get(key), key in self._known
        if again and key not in self._tried and len(self._tried) < MOST_GRAPHS:
            self._tried.add(key)
            known = self._known[key] = captured(self._run, key, engine, kernels, given, weights)
        if known is not None:
            self.replay = known.replay
            if (found := known.replay(given)) is not None:
                return found
        if len(self._known) < MOST_TAPES:
            self._known.setdefault(key, None)
        return self._run(engine, taken(given), kernels, weights, {})

    def _recorded(
        self,
        key: tuple[Any, ...],
        engine: Host | Devices,
        given: list[Any],
        kernels: Kernels | DeviceKernels,
        weights: Any,
        externs: Any,
    ) -> list[Any]:
        recording = Recording(given, MOST_STEPS)
        on, launching = self._recorders(engine, kernels, recording)
        results = self._run(on, taken(given), launching, weights, externs)
        same = [id(r) for r in results] == [id(r) for r in recording.results]
        if not (recording.sound and same):
            self._known[key] = None
            return results
        own = kernels.of(OWN) if isinstance(kernels, DeviceKernels) else kernels
        made = Tape(recording, key, own, self._places)
        tape = self._known.setdefault(key, made)  # another thread may have made one
        self.replay = tape.replay if tape else nothing
        return results

    def _recorders(
        self, engine: Host | Devices, kernels: Kernels | DeviceKernels, recording: Recording
    ) -> tuple[Any, Any]:
        """Return an engine and kernels that record: one of each device, into one recording."""
        if isinstance(engine, Devices) and isinstance(kernels, DeviceKernels):
            recorders = {
                device: Recorder(e, kernels.of(device), recording, self._file)
                for device, e in engine.engines.items()
            }
            several = Devices(recorders)
            return several, several.kernels([*recorders.values()])
        assert isinstance(engine, Host)
        assert isinstance(kernels, Kernels)
        made = Recorder(engine, kernels, recording, self._file)
        return made, made

    def _places(self, step: Launched) -> list[str]:
        name = Path(self._file).name
        told = [(n, self._lines[n].text) for n in step.frames if n in self._lines]
        return [f"{name}, line {n}: {text}" for n, text in told]


class Tape:
    """A recorded call in memory that ``replay__`` reads, of inputs of some shapes and dtypes."""

    def __init__(
        self,
        recording: Recording,
        inputs: Sequence[Lies],
        kernels: Kernels,
        places: Callable[[Launched], list[str]],
    ) -> None:
        self._kernels, self._places = kernels, places
        self._kept: list[Any] = []  # what the tape has addresses of
        self._first = {NOWHERE: 0, INPUT: 1, OUTPUT: 1 + len(inputs)}
        self._first[MEMORY] = 1 + len(inputs) + len(recording.results)
        self._patches: list[int] = []
        self._records: dict[int, Any] = {}  # of launches
        steps = [self._step(s) for s in recording.steps]
        failed = [self._object(partial(self._raise, s)) for s in recording.steps]
        slots = self._first[MEMORY] + sum(isinstance(s, Taken) for s in recording.steps)
        results = [(r.shape, r.dtype, None) for r in recording.results]
        words = [
            *map(self._object, (np.ndarray, list, None)), self._words(failed), _itemsize(),
            len(inputs), len(results), slots, len(steps), self._types(inputs, recording.rows),
            self._types(results, {}),
            *(self._words([0] * n) for n in (len(inputs), len(results), slots, slots)),
            self._words([w for row in steps for w in row]), self._words(self._patches),
        ]  # fmt: skip
        self.replay = self._method(self._words(words))

    def _words(self, values: Iterable[int]) -> int:
        """Return the address of words, which stay as long as the tape does."""
        given = list(values)
        block = (ctypes.c_int64 * max(1, len(given)))(*given)
        self._kept.append(block)
        return ctypes.addressof(block)

    def _types(self, types: Sequence[Lies], rows: Mapping[int, Row]) -> int:
        words: list[int] = []
        for i, (shape, d, strides) in enumerate(types):
            row = rows.get(i, Row(0, 0))
            steps = self._words(strides) if strides is not None and i in rows else 0
            words += self._object(d), len(shape), self._words(shape), steps
            words += row.before * d.itemsize, row.span * d.itemsize
        return self._words(words)

    def _object(self, value: Any) -> int:
        self._kept.append(value)
        return id(value)

    def _method(self, tape: int) -> Callable[[list[Any]], list[Array] | None]:
        function = self._kernels.replayer([*map(_address, _PYTHON), _empty()])
        method = _Method(b"replay", function, _ONE_ARGUMENT, None)
        self._kept.append(method)
        make = ctypes.pythonapi.PyCFunction_NewEx
        object_ = ctypes.py_object
        make.restype, make.argtypes = object_, (ctypes.c_void_p, object_, object_)
        made: Callable[[list[Any]], list[Array] | None] = make(ctypes.addressof(method), tape, self)
        return made

    def _slot(self, base: int, number: int) -> int:
        return self._first[base] + number

    def _step(self, step: Step) -> tuple[int, ...]:
        match step:
            case Launched():
                return self._launch(step)
            case Taken(number, nbytes):
                return _TAKE, self._slot(MEMORY, number), nbytes, 0, 0, 0
            case Given(base, number):
                if base == INPUT:
                    return _DROP, number, 0, 0, 0, 0
                return _GIVE, self._slot(base, number), 0, 0, 0, 0
            case Copied(to, source, nbytes):
                ends = (w for p in (to, source) for w in (self._slot(p.base, p.number), p.offset))
                return _COPY, *ends, nbytes

    def _launch(self, step: Launched) -> tuple[int, ...]:
        """Return a step, whose launch record and arguments are its own."""
        words = self._words([*(p.offset for p in step.places), *step.sizes])
        record = ctypes.create_string_buffer(
            struct.pack("<Q", words) + step.record[8:], LAUNCH.size
        )
        self._records[id(step)] = record
        first = len(self._patches) // 3
        for i, p in enumerate(step.places):
            if p.base != NOWHERE:
                self._patches += self._slot(p.base, p.number), p.offset, words + 8 * i
        count = len(self._patches) // 3 - first
        return _LAUNCH, step.entry, ctypes.addressof(record), first, count, 0

    def _raise(self, step: Step) -> NoReturn:
        """Raise the error of a step that failed."""
        if not isinstance(step, Launched):
            raise MemoryError
        record = self._records[id(step)]
        fault, line, *_ = FAULT.unpack_from(record, FAULT_AT)
        FAULT.pack_into(record, FAULT_AT, *(0,) * 8)
        e = self._kernels.fault(step.kernel, fault, line)
        for note in self._places(step):
            e.add_note(note)
        raise e
