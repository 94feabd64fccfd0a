"""What a user asks of ``didyma judge``: its options, or a description of them in a file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from didyma.refimpl.errors import DidymaError, reason


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for, as the options of the command have it.

    ``launch`` are several launches of one text, in order, each with ``kernel``, ``grid``,
    ``block``, ``shared`` and ``arg``; ``memory`` is what they share.  A description alone has them.
    """

    file: str
    spec: str = ""
    kernel: str = ""
    grid: str = "1"
    block: str = "32"
    shared: str = ""
    arg: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    accumulate: str = "f32"
    order: str = "any"
    fast_math: bool = False
    finite: bool = False
    structure: bool = False
    multiply: str = "f32"
    size: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    rounds: int = 16
    seed: int = 1
    seconds: float = 7.0
    timeout: float = 10.0
    memory: tuple[str, ...] = ()
    launch: tuple[Mapping[str, Any], ...] = ()


def described(asked: Request) -> Request:
    """Return a request whose file is a description, ``.toml``, with what that says.

    Its keys are the long options of the command, and ``file``; paths in it begin at its folder.
    An option of the command line takes the place of the description's.  DidymaError
    ``bad-option``.
    """
    path = Path(asked.file)
    if path.suffix != ".toml":
        return asked
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as e:
        raise DidymaError("unreadable-file", str(path), got=reason(e), want="a description") from e
    except ValueError as e:
        raise DidymaError("bad-option", str(path), got=str(e), want="a file of TOML") from None
    usual = asdict(Request(""))
    given = {k.replace("-", "_"): _typed(k, v, usual, path) for k, v in found.items()}
    if "file" not in given:
        raise DidymaError("bad-option", str(path), got="no file", want='file = "kernel.cu"')
    merged = absolute({**usual, **given}, path.parent)
    own = {k: v for k, v in asdict(asked).items() if v != usual[k] and k != "file"}
    return replace(merged, **own)


def _typed(key: str, value: Any, usual: Mapping[str, Any], path: Path) -> Any:
    """Return a value of a description as the option of its name takes it."""
    name = key.replace("-", "_")
    want = usual.get(name)
    if name == "launch" and isinstance(value, list):
        return tuple(_table(t) for t in _row(value))
    if isinstance(want, tuple):
        if isinstance(value, dict):
            return tuple(f"{k}={v}" for k, v in cast("dict[str, Any]", value).items())
        return tuple(map(str, _row(value)))
    if want is None or isinstance(value, bool) != isinstance(want, bool):
        known = ", ".join(usual)
        raise DidymaError("bad-option", f"{path}: {key}", got=f"{key} = {value!r}", want=known)
    if isinstance(want, str):
        return ",".join(map(str, _row(value)))
    if not isinstance(value, int | float):
        raise DidymaError("bad-option", f"{path}: {key}", got=repr(value), want="a number")
    return value


def _table(value: Any) -> dict[str, Any]:
    """Return a table of a description; what is none has a key that no table knows."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"": value}


def _row(value: Any) -> list[Any]:
    """Return the items of a list or tuple, or a value alone."""
    return [*cast("list[Any]", value)] if isinstance(value, list | tuple) else [value]


_PATHS = ("file", "spec")


def relative(asked: Request, folder: Path) -> dict[str, Any]:
    """Return a request as JSON types, with paths as seen from a folder where that holds them."""
    base = folder.resolve()

    def seen(text: str) -> str:
        path = Path(text).resolve()
        return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)

    found = asdict(asked)
    for k in _PATHS:
        found[k] = seen(found[k])
    found["include"] = [seen(f) for f in found["include"]]
    return {k: _json(v) for k, v in found.items()}


def kept(found: Mapping[str, Any], path: Path) -> Request:
    """Return the request that a certificate keeps; DidymaError ``bad-certificate`` for another."""
    for name, usual in asdict(Request("")).items():
        value = found.get(name, _json(usual))
        match usual:
            case tuple():
                fits = isinstance(value, list)
            case float():
                fits = isinstance(value, float | int)
            case _:
                fits = isinstance(value, type(usual))
        if not fits or (name == "file" and not value):
            raise DidymaError(
                "bad-certificate", str(path), got=f"`{name}` = {value!r} in `asked`",
                want="options as `didyma judge` wrote them",
                help="judge the kernel again, with --certificate FILE",
            )  # fmt: skip
    return absolute(found, path.parent)


def _json(value: Any) -> Any:
    """Return the value of an option as JSON types."""
    return _row(value) if isinstance(value, tuple) else value


def absolute(found: Mapping[str, Any], folder: Path) -> Request:
    """Return the request whose paths begin at a folder."""
    known = {f.name for f in fields(Request)}
    given: dict[str, Any] = {
        k: tuple(_row(v)) if isinstance(v, list) else v for k, v in found.items() if k in known
    }
    for k in _PATHS:
        given[k] = str(folder / given[k]) if given.get(k) else ""
    given["include"] = tuple(str(folder / f) for f in given.get("include", ()))
    return Request(**given)
