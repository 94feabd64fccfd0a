"""Count the bits that a kernel of rows moves for each element of a row.

Only arrays that have all elements of all rows count.  A kernel has a stage for each of its folds,
and one for the results that have an element for each element of a row.  Registers hold what several
stages read, if there are enough of them; what they do not hold is loaded by each stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from didyma.codegen.lower.rows import Along, Rows
from didyma.codegen.options import Options
from didyma.codegen.schedule import row_threads
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Node
from didyma.refimpl.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class RowTraffic:
    """What decides how often a kernel loads its rows: types, ranges of symbols, and options.

    ``folded`` are the values that are results of folds.  With ``waits``, joins of rows side by side
    must save some of it.
    """

    types: Mapping[str, TensorType]
    ranges: dims.Ranges
    options: Options
    folded: frozenset[str]
    waits: bool

    def once(self, arrays: Sequence[str], rows: Rows) -> int:
        """Return the bits of arrays, each of which is moved once."""
        return sum(self.types[x].dtype.bits for x in arrays if rows.is_whole(self.types[x].shape))

    def moved(self, nodes: Sequence[Node], writes: Sequence[str], rows: Rows) -> int:
        """Return the bits that a kernel of these nodes loads and stores."""
        loads = Counter(x for stage in self._stages(nodes, writes, rows) for x in stage)
        whole = [x for x in loads if rows.is_whole(self.types[x].shape)]
        if not self._holds([x for x in whole if loads[x] > 1], rows):
            whole = [x for x in whole for _ in range(loads[x])]
        return self.once((*whole, *writes), rows)

    def _holds(self, again: Sequence[str], rows: Rows) -> bool:
        """Return whether the registers of the threads of a row hold it of each of these arrays."""
        length, count = (self.most(d) for d in (rows.length, dims.mul(*rows.dropped)))
        nbytes = [self.types[x].dtype.nbytes for x in again]
        width = self._width(max(nbytes, default=1), rows)
        across = rows.is_across
        _, lanes = row_threads.shape(length, count, across, self.options, width, nbytes)
        if isinstance(rows.length, int) and not across:
            lanes *= self.options.device.cluster  # several blocks may hold a row
        turns = row_threads.turns(length, lanes, self.options, width)
        if turns is None:
            return not again
        return sum(row_threads.words(n, turns * width) for n in nbytes) <= row_threads.KEPT

    def _width(self, nbytes: int, rows: Rows) -> int:
        """Return how many neighbours in a row a thread takes at once, as far as is known here."""
        if rows.is_across or not self.options.kernels.vectorise:
            return 1
        inner = rows.shape[rows.axes[-1]]
        known = inner if isinstance(inner, int) else 1
        most = self.most(inner) if len(rows.axes) == 1 else 0  # rows of several axes have no edges
        return row_threads.widest(nbytes, most, known, self.options)

    def most(self, d: dims.Dim) -> int:
        """Return the greatest value of a size."""
        return dims.bounds(d, self.ranges)[1]

    def _stages(
        self, nodes: Sequence[Node], writes: Sequence[str], rows: Rows
    ) -> Iterator[set[str]]:
        """Yield the values from outside that each stage of a kernel reads."""
        made = {r: n for n in nodes for r in n.results}
        folds = [n for n in nodes if n.results[0] in self.folded]
        for n in folds:
            yield self._read(n.args, made)
        whole = [w for w in writes if rows.at(w, self.types[w].shape) is Along.ELEMENT]
        if whole or not folds:
            yield self._read(whole if whole else writes, made)

    def _read(self, values: Sequence[str], made: Mapping[str, Node]) -> set[str]:
        """Return what values are computed from, up to the results of folds."""
        found, todo, seen = set[str](), list(values), set[str]()
        while todo:
            value = todo.pop()
            n = made.get(value)
            if n is None:
                found.add(value)
            elif value not in seen and value not in self.folded:
                seen.add(value)
                todo += n.args
        return found
