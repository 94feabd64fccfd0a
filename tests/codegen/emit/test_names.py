from __future__ import annotations

import pytest

from didyma.codegen.emit.names import c_names
from didyma.codegen.lower.names import identifier

WORDS = ("threadIdx", "blockDim", "NULL", "float", "i64", "f32", "b8", "f32x4", "exp_f32")


@pytest.mark.parametrize("word", [*WORDS, "assert", "__syncthreads"])
def test_no_name_in_c_hides_a_word_of_the_text(word: str) -> None:
    assert c_names().fresh(word) != word


@pytest.mark.parametrize("word", WORDS)
def test_no_name_of_a_loop_program_is_a_word_of_c(word: str) -> None:
    assert identifier(word) != word
