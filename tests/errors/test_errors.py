"""Every code has bad input and the message it gets: ``<code>.dym`` and ``<code>.txt`` here.

``<code>.<n>.dym`` are further cases.  ``python -m tests.errors.test_errors`` writes the messages
anew; read the difference before you commit it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from didyma import codes
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Function, Module, Node
from didyma.refimpl.ir.program import Program, Return
from didyma.refimpl.ir.text import parse
from didyma.refimpl.ir.types import DType, Tensor, TensorType
from didyma.refimpl.verify import graph, loop, program

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "didyma" / codes.EXAMPLES
SOURCE = HERE.parent.parent / "refimpl"
CODE = re.compile(r'"((?:[DGLP]-[a-z]+(?:-[a-z]+)*)|parse)"')
LAW = re.compile(r"^\| ([DGLP]-[a-z-]+) \|", re.MULTILINE)
CASES = sorted(p.stem for p in HERE.glob("*.dym"))


def check(name: str) -> None:
    """Read and verify the text of a case."""
    x = parse((HERE / f"{name}.dym").read_text(), f"{name}.dym")
    match x:
        case Module():
            graph.verify(x)
        case Program():
            program.verify(x)
        case _:
            for f in x:
                loop.verify(f)


def message(name: str) -> DidymaError:
    """What the case gets."""
    with pytest.raises(DidymaError) as e:
        check(name)
    return e.value


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    e = message(name)
    assert str(e) + "\n" == (HERE / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", [c for c in CASES if re.match(r"[DGLP]-|parse", c)])
def test_code(name: str) -> None:
    assert message(name).code == name.split(".")[0]


def sources() -> str:
    """Source of the text form and the verifiers."""
    files = (*(SOURCE / "ir" / "text").glob("*.py"), *(SOURCE / "verify").glob("*.py"))
    return "\n".join(p.read_text() for p in sorted(files))


def test_every_code_has_a_case() -> None:
    raised = set(CODE.findall(sources()))
    assert {"parse", "G-unknown-op", "L-rank", "P-fits", "D-range"} <= raised
    cases = {c.split(".")[0] for c in CASES if re.match(r"[DGLP]-|parse", c)}
    assert raised == {*cases, "G-attr-data"}  # no text can say that; see below


def test_every_law_is_raised_and_told() -> None:
    text = sources()
    laws = LAW.findall(text)
    assert len(laws) == len(set(laws))
    assert set(laws) == set(CODE.findall(text)) - {"parse"}


def test_every_message_has_its_case() -> None:
    assert sorted(p.stem for p in HERE.glob("*.txt")) == CASES


SHORT = Tensor(DType.F32, (2,), b"1234")  # of which no text speaks: the parser counts bytes


def test_constants_of_too_few_bytes() -> None:
    n = Node(("c",), "constant", (), (SHORT.type,), (("value", SHORT),))
    with pytest.raises(DidymaError, match=r"4 bytes\n.*8 bytes") as e:
        graph.verify(Module((Function("f", (), (n,), ("c",)),)))
    assert e.value.code == "G-attr-data"
    p = Program("f", (), (), (("c", SHORT),), (("c", SHORT.type),), (), (Return(()),))
    with pytest.raises(DidymaError, match=r"4 bytes\n.*8 bytes") as e:
        program.verify(p)
    assert e.value.code == "P-constant"


def test_types_of_a_constant() -> None:
    t = TensorType(DType.F32, (2,), "cuda:1")  # a constant may be on a device of its own
    one = Tensor(DType.F32, (2,), bytes(8))
    program.verify(Program("f", (), (), (("c", one),), (("c", t),), (), (Return(()),)))


def examples() -> str:
    """The shortest text that breaks each law: what ``didyma explain LAW`` shows."""
    shortest: dict[str, str] = {}
    for case in CASES:
        text, code = (HERE / f"{case}.dym").read_text(), case.split(".")[0]
        if re.match(r"[DGLP]-", code) and len(text) < len(shortest.get(code, text + "+")):
            shortest[code] = text
    return json.dumps(shortest, indent=1, sort_keys=True) + "\n"


def test_the_examples_that_explain_shows_are_those_of_today() -> None:
    assert EXAMPLES.read_text() == examples()


if __name__ == "__main__":
    for case in CASES:
        (HERE / f"{case}.txt").write_text(f"{message(case)}\n")
    EXAMPLES.write_text(examples())
