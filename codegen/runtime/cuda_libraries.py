"""Where NVIDIA's libraries are: in its wheels, in the CUDA toolkit, or where the loader looks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path


def paths(stem: str) -> Iterator[str]:
    """Yield libraries to try, such as of the stem ``nvrtc``, newest first within a place."""
    homes = [os.environ.get(v, "") for v in ("CUDA_HOME", "CUDA_PATH")]
    folders = [Path(p) / "nvidia" for p in sys.path if p and (Path(p) / "nvidia").is_dir()]
    places = [(f, f"*/lib/lib{stem}.so.*") for f in folders]
    places += [(Path(h), f"lib64/lib{stem}.so.*") for h in (*homes, "/usr/local/cuda") if h]
    for place, pattern in places:
        for path in sorted(place.glob(pattern), reverse=True):
            if "alt" not in path.name:
                yield str(path)
    yield from (f"lib{stem}.so.13", f"lib{stem}.so.12", f"lib{stem}.so")
