"""Slips in programs on several devices: copies, guards, and streams that wait for one another."""

from __future__ import annotations

from tests.mutants.faults import Fault


def _slip(name: str, file: str, old: str, new: str) -> Fault:
    return Fault(name, f"codegen/{file}", old, new, ("order", "plan", "program"))


def _of_a_run(name: str, file: str, old: str, new: str) -> Fault:
    levels = ("program", "simt", "host", "module")
    return Fault(name, f"codegen/runtime/didyma_runtime/{file}", old, new, levels)


FAULTS: tuple[Fault, ...] = (
    _slip(
        "a copy between devices dropped", "order/blocks.py",
        "of a fused graph\"\n                self._copy(results[0], args[0])",
        "of a fused graph\"\n                self._view(results[0], args[0])",
    ),
    _slip(
        "a copy between devices left out where nobody writes", "memory/elide.py",
        "if p.type[line.value].device != p.type[line.source].device:", "if False:",
    ),
    _slip(
        "a copy taken for one of another value", "passes/place.py",
        "found = self.there.get((of, device))",
        "found = self.there.get((of, device)) or next(\n"
        "            (v for (a, d), v in self.there.items() if d == device\n"
        "             and self.types[a].shape == self.types[of].shape\n"
        "             and self.types[a].dtype is self.types[of].dtype), None)",
    ),
    _slip(
        "a guard left out around a launch", "emit/guards.py",
        "            return types[args[0]].device", "            return None",
    ),
    _slip(
        "a guard that stays around a block", "emit/guards.py",
        "case If() | While() | Repeat() | Call() | Return() | Launch()",
        "case Return() | Launch()",
    ),
    _slip(
        "an arena of one device for all", "memory/allocate.py",
        "by_device.setdefault(b.type.device, []).append(b)",
        'by_device.setdefault("", []).append(b)',
    ),
    _slip(
        "a constant of one device read by another", "order/blocks.py",
        "if v is value and self.types[k].device == at)", "if v is value)",
    ),
    _slip(
        "wrong stream: a launch beside the one that was waited for", "order/streams.py",
        "yield replace(line, stream=stream)", "yield replace(line, stream=stream + 1)",
    ),
    _slip(
        "missing event: a copy that does not wait for its source", "order/streams.py",
        "yield from self._waits(0, (source,), (value,))",
        "yield from self._waits(0, (), (value,))",
    ),
    _of_a_run("a guard that is not left", "devices.py", "self._local.here = before", "pass"),
    _of_a_run(
        "a copy between devices that copies nothing", "devices.py",
        "            else:\n                to.copy(target.buffer, source.buffer)",
        "            else:\n                pass",
    ),
    _of_a_run(
        "a tape that takes one allocation for another", "recorder.py",
        "self.recording.taken += 1", "self.recording.taken += number == 0",
    ),
)  # fmt: skip
