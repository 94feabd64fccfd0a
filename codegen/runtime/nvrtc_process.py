"""The process in which NVRTC compiles for this one; it starts with the first job."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Lock
from typing import IO, Any

from didyma.codegen.runtime import nvrtc_library
from didyma.codegen.runtime.nvrtc_library import Built, Job
from didyma.refimpl.errors import DidymaError

# Settings of glibc, where it is the C library: what a compile frees is kept for the next one, up to
# 256 MiB, where it would be given back to the system and be mapped again, page by page.
_KEEPS_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
}


class Service:
    """NVRTC in a child process, which is started again after a job has crashed it.

    ``seconds`` are the processor time of all jobs.  The headers that the child keeps lie in a
    folder that it removes at its end; where it has been killed, this process does.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self.seconds = 0.0
        atexit.register(self.close)

    def build(self, job: Job) -> Built:
        """Compile a job; DidymaError ``kernel-text`` where it crashes NVRTC."""
        with self._lock:
            child = self._child or self._started()
            try:
                nvrtc_library.send(_pipe(child.stdin), job)
                answer: Any = nvrtc_library.receive(_pipe(child.stdout))
            except (EOFError, OSError):
                raise self._crash(job, child) from None
        if len(answer) == 1:
            raise RuntimeError(answer[0])
        built = Built(*answer)
        self.seconds += built.seconds
        return built

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            _pipe(child.stdin).close()
            _pipe(child.stdout).close()
            child.kill()
            child.wait()
            rmtree(self._folder, ignore_errors=True)

    def _started(self) -> subprocess.Popen[bytes]:
        script = str(Path(nvrtc_library.__file__))
        self._folder = mkdtemp(prefix="didyma-headers-")
        self._child = subprocess.Popen(
            [sys.executable, "-S", "-E", script, self._path, self._folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**_KEEPS_MEMORY, **os.environ},
            start_new_session=True,  # Ctrl-C is for the parent, whose end ends the child
        )  # fmt: skip
        return self._child

    def _crash(self, job: Job, child: subprocess.Popen[bytes]) -> DidymaError:
        code = child.wait()
        self.close()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return DidymaError(
            "kernel-text", job.name, got=f"a crash of NVRTC ({how})",
            want="CUDA C++ that NVRTC compiles",
            help="it is a fault of NVRTC: change what is unusual in the text",
        )  # fmt: skip


def service(path: str) -> Service:
    """Return the process that compiles by the library at a path for this process.

    A process that was forked has its own.
    """
    return _service(path, os.getpid())


@cache
def _service(path: str, _process: int) -> Service:
    return Service(path)


def _pipe(found: IO[bytes] | None) -> Any:
    assert found is not None, "the child has pipes"
    return found
