"""Peers by name, and whether each can run here; none is imported before it is asked for."""

from __future__ import annotations

from typing import cast

from didyma.codegen import plugins
from didyma.codegen.runtime.registry import Availability
from didyma.fuzz.peers.peer import Peer
from didyma.refimpl.errors import DidymaError, EngineMissing

ONNXRUNTIME = "onnxruntime"
NAMES = (ONNXRUNTIME,)


def names() -> tuple[str, ...]:
    """Return Didyma's peers and those that other distributions register."""
    return tuple(dict.fromkeys((*NAMES, *plugins.names(plugins.PEERS))))


def peer(which: str | Peer) -> Peer:
    """Return the peer of a name, or check that an object is one and return it.

    DidymaError ``unknown-peer`` for a name that is none, ``bad-peer`` for an object that lacks a
    member of the protocol, ``broken-plugin``; EngineMissing where its package is not installed.
    """
    if not isinstance(which, str):
        return _checked(which, "peer")
    if which == ONNXRUNTIME:
        return _onnxruntime()
    found = plugins.load(plugins.PEERS, which)
    if found is None:
        raise DidymaError("unknown-peer", which, got=which, want=f"one of {', '.join(names())}")
    return _checked(found, f"{which} of {plugins.origin(plugins.PEERS, which)}")


def _checked(found: object, where: str) -> Peer:
    return cast("Peer", plugins.checked(found, Peer, "bad-peer", where))


def _onnxruntime() -> Peer:
    try:
        from didyma.fuzz.peers.ort import OnnxRuntime

        return OnnxRuntime()
    except ModuleNotFoundError as e:
        if e.name is None or not e.name.startswith("onnx"):
            raise
        raise EngineMissing(
            "engine-missing", f"peer {ONNXRUNTIME}", got="no onnx package", want="the extra `onnx`",
            help="python3 -m pip install 'onnx>=1.17' onnxruntime",
        ) from None  # fmt: skip


def probe(name: str) -> Availability:
    """Return whether a peer can be had here, and how to install it where it cannot."""
    try:
        peer(name)
    except DidymaError as e:
        return Availability(name, False, e.got, e.help)
    why = "runs the same programs, to compare with"
    if name not in NAMES:
        why = f"registered by {plugins.origin(plugins.PEERS, name)}"
    return Availability(name, True, why, "")
