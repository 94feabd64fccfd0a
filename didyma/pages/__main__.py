"""Write every generated page into a folder: ``python -m didyma.pages docs``."""

from __future__ import annotations

import sys
from pathlib import Path

from didyma.codegen.runtime import disk
from didyma.pages.index import PAGES

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, page in PAGES.items():
        print(disk.write_file(folder / name, page()))
