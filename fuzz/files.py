"""The files of a campaign: one for each example kept, written as soon as it is seen."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from didyma.codegen.runtime import disk
from didyma.fuzz.domains.domain import Domain, Outcome
from didyma.fuzz.groups import Example
from didyma.fuzz.steering import meter
from didyma.fuzz.worker import Undrawn


class Files:
    """Writes examples to a folder, if there is one, and deletes those that are needed no more."""

    def __init__(self, folder: Path | None, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.drafts: set[str] = set()  # files of findings that are being made smaller
        self._texts: dict[Path, str] = {}  # of the files that were not there before

    def save(self, domain: Domain[Any], e: Example) -> Example:
        """Return an example with its file, if files are written, and the command to replay it."""
        undrawn = isinstance(e.case, Undrawn)  # such a case is none of the domain's
        anew = f"didyma fuzz --domain {domain.name} --seed {self.seed} --case {e.index}"
        if e.wishes is not None:
            anew += f" --wishes '{meter.text(e.wishes)}'"
        path = None if self.folder is None else self.folder / _file_name(e)
        if path is not None and (path in self._texts or not path.exists()):
            lines = [f"could not be shrunk: {e.unshrunk}"] if e.unshrunk else []
            lines.append(f"drawn anew by `{anew}`")
            found = Outcome((e.finding, *e.others), e.traits)
            write = partial(Domain[Any].text, domain) if undrawn else domain.text
            self._texts[path] = write(e.case, found, "\n".join(lines), self.seed)
            disk.write_file(path, self._texts[path])
        file = "" if path is None else str(path)
        return replace(e, file=file, replay=(not undrawn and domain.replay(e.case, file)) or anew)

    def tidy(self, kept: Iterable[Example]) -> None:
        """Write the files of examples that are missing; delete those that no example needs.

        A file that was there before the campaign stays as it is.
        """
        needed = {e.file for e in kept} | self.drafts
        for path, text in self._texts.items():
            if str(path) not in needed:
                path.unlink(missing_ok=True)
            elif not path.exists():
                disk.write_file(path, text)


def _file_name(e: Example) -> str:
    level = re.sub(r"[^\w.-]", "-", e.finding.level)
    digest = hashlib.sha256(repr(e.case).encode()).hexdigest()
    return f"{level}-{e.finding.kind}-{digest[:8]}.dym"
