"""Python in a process of its own that is forked from one which has imported Didyma already."""

from __future__ import annotations

import multiprocessing as mp
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from didyma.fuzz import watchdog

# pytest cannot rewrite the assertions of modules that are imported already.
PYTEST = {"PYTEST_ADDOPTS": "-W ignore::pytest.PytestAssertRewriteWarning"}


def python(
    *words: str, cwd: Path, env: Mapping[str, str], seconds: float = 120, one_stream: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run Python as a command line would: ``-c CODE``, ``-m MODULE`` or ``FILE``, then arguments.

    Where ``one_stream`` is true, what it says on stderr is in ``stdout``, in its place.  The
    process has imported Didyma from where this one has: tests of imports start Python itself.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        err = out if one_stream else Path(folder, "err")
        out.touch()
        err.touch()
        watchdog.get_ready()
        process = mp.get_context("forkserver").Process(
            target=_be_python, args=(words, cwd, {**PYTEST, **env}, (out, err), _server(forkserver))
        )
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, seconds, out.read_text(), err.read_text())
        said = "" if one_stream else err.read_text(encoding="utf-8")
        code = process.exitcode
        process.close()
        return subprocess.CompletedProcess(words, code, out.read_text(encoding="utf-8"), said)


def _server(module: Any) -> str:
    """Return the address of the process from which children of this one are forked."""
    return str(module._forkserver._forkserver_address)


def _share(module: Any, address: str) -> None:
    """Fork children of this process, too, from one that has imported Didyma already."""
    server = module._forkserver
    server._forkserver_address = address
    server.ensure_running = module.ensure_running = lambda: None


def _be_python(
    words: tuple[str, ...], cwd: Path, env: dict[str, str], said: tuple[Path, Path], address: str
) -> None:
    """Take the place of an interpreter that was started with these words."""
    _share(forkserver, address)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, log in zip((1, 2), said, strict=True):
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p]
    match words:
        case ("-c", code, *rest):
            sys.argv = ["-c", *rest]
            sys.path.insert(0, "")
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case ("-m", module, *rest):
            sys.argv = [module, *rest]
            sys.path.insert(0, str(cwd))
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case (file, *rest):
            sys.argv = [file, *rest]
            sys.path.insert(0, str(Path(cwd, file).parent))
            runpy.run_path(file, run_name="__main__")
        case _:
            raise ValueError("no words")
