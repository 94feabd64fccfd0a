"""Mutants of kernel text are equal to the original where a C compiler makes the same of them."""

from __future__ import annotations

import pytest

from didyma.codegen.runtime.compiler import each_found
from tests.codegen.runtime.texts import kernel
from tests.mutants.instructions import alike

_BODY = """\
  const i64 i = threadIdx.x;
  const i64 b = blockIdx.x;
  if (i < 8 && b < 3) {
    y[i] = x[i];
  }"""


@pytest.mark.skipif(not any(each_found()), reason="there is no C compiler")
@pytest.mark.parametrize(
    ("threads", "blocks", "old", "new", "same"),
    [
        (8, 1, "i < 8", "i < 9", True),  # no thread is behind the eighth
        (9, 1, "i < 8", "i < 9", False),
        (8, 3, "b < 3", "b < 4", True),
        (8, "n", "b < 3", "b < 4", False),
        (8, 3, "x[i]", "x[i] + 0.0f", False),  # -0 + 0 is 0
        (8, 3, "x[i]", "x[i", False),  # no C
    ],
)
def test_what_compiles_to_the_same_is_equal(
    threads: int, blocks: int | str, old: str, new: str, same: bool
) -> None:
    text = kernel(_BODY, threads=threads, blocks=blocks)
    assert alike(text, "k", text.source, text.source)
    assert alike(text, "k", text.source, text.source.replace(old, new)) is same
