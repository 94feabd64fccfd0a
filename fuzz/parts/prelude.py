"""What preludes define: the definitions that a text needs, and products of four warps in PTX.

The PTX is held against PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
Instructions", whose operands are counted from what the C binds them to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from random import Random
from types import MappingProxyType

from didyma.codegen.emit import prelude
from didyma.codegen.emit.prelude import groups
from didyma.codegen.runtime.engine import Engine
from didyma.fuzz.parts.told import differ

# Of each kind of operands: terms of a product, the names of operands and sums in PTX, the letter
# of registers that hold a sum, and the C types of operands and sums.
KINDS: Mapping[str, tuple[int, str, str, str, str, str]] = MappingProxyType({
    "f16": (16, "f16", "f32", "f", "f16", "f32"), "bf16": (16, "bf16", "f32", "f", "bf16", "f32"),
    "tf32": (8, "tf32", "f32", "f", "f32", "f32"), "i8": (32, "s8", "s32", "r", "i8", "i32"),
})  # fmt: skip
_C = re.compile(r"FN void (\w+)\((\w+) \*d, const (\w+) \*a, const (\w+) \*b\) \{")
_ASM = re.compile(r"asm volatile\((.*?)\s*:(.*):(.*)\);\s*\}", re.DOTALL)
_BOUND = re.compile(r'"(\+?\w)"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)')
_WORD = re.compile(r"[A-Za-z_]\w*")
SWIZZLED = 1 << 62  # by 128 bytes
LINES, PANEL = 1024, 8192  # bytes from eight lines to the next, and from a panel to the next


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with a product, or with the definitions of some names."""
    del engine
    yield from r.choice((_product, _descriptor, _selected))(r)


def _product(r: Random) -> Iterator[str]:
    """A product names its operands in the order of PTX: sums, a, b, and then what is immediate."""
    kind = r.choice([*KINDS])
    k, operand, total, letter, c_type, c_total = KINDS[kind]
    a, b = (r.choice("kmr"), r.choice("kn")) if k == 16 else ("k", "k")
    columns = r.randrange(32, 257, 16 if (a, b) == ("r", "n") else 32)
    if columns % 32 and columns < 80:
        columns += 32
    name = f"wgmma_m64n{columns}k{k}_{kind}_{a}{b}"
    text = dict(groups.definitions()).get(name, "")
    head, asm = _C.match(text), _ASM.search(text)
    if head is None or asm is None:
        yield f"{name} is {text!r}"
        return
    yield from differ(head.groups(), (name, c_total, c_type, c_type), f"the head of {name}")
    bound = _BOUND.findall(asm[2]) + _BOUND.findall(asm[3])
    sums = [(f"+{letter}", f"d[{i}]") for i in range(columns // 2)]
    held = [("r", f"((const u32 *)a)[{i}]") for i in range(4)] if a == "r" else []
    left = held or [("l", "descriptor__(a)")]
    want = [*sums, *left, ("l", "descriptor__(b)")]
    yield from differ(bound, want, f"operands of {name}")
    row = " ".join(re.findall(r'"([^"]*)"', asm[1]))
    row = re.sub(r"%(\d+)", lambda m: bound[int(m[1])][1], row)
    first = ", ".join(v for _, v in sums)
    second = left[0][1] if a != "r" else f"{{{', '.join(v for _, v in held)}}}"
    immediate = ["1"] if kind == "i8" else ["1", "1", "1"]
    if k == 16:  # lines of terms are not turned; of a in registers no line is
        immediate += [*([] if a == "r" else [str(int(a == "m"))]), str(int(b == "n"))]
    told = (
        f"wgmma.mma_async.sync.aligned.m64n{columns}k{k}.{total}.{operand}.{operand}"
        f" {{{first}}}, {second}, descriptor__(b), {', '.join(immediate)};"
    )
    yield from differ(" ".join(row.split()), told, f"the PTX of {name}")


def _descriptor(r: Random) -> Iterator[str]:
    """A descriptor has an address, the strides of lines and panels, and how they are swizzled."""
    at = r.randrange(0, 1 << 18, 16)
    text = dict(groups.definitions())["descriptor__"]
    body = text[text.index("return") + len("return") : text.rindex(";")]
    sum_ = re.sub(r"(\d)ull", r"\1", body).replace("(u64)", "").replace("in_shared__(p)", "at")
    want = SWIZZLED | (LINES // 16) << 32 | (PANEL // 16) << 16 | at // 16
    yield from differ(eval(sum_, {"at": at}), want, f"the descriptor of {at}")


def _selected(r: Random) -> Iterator[str]:
    """A text gets the definitions that it needs, each once and after those that it uses."""
    target: prelude.Target = r.choice(("host", "cuda"))
    known = prelude.load(target)
    names = r.sample(sorted(known.definitions), r.randint(1, 4))
    text = "; ".join(f"y = {n}(x)" for n in names)
    yield from differ(known.uses(text), sorted(names), f"names of {text} for {target}")
    needed, new = set[str](), {*names}
    while new:
        needed |= new
        words = {w for n in new for w in _WORD.findall(known.definitions[n])}
        new = (words & known.definitions.keys()) - needed
    found = known.select(text)
    yield from differ(found.startswith(known.head), True, "the types are there first")
    rest, order = found.removeprefix(known.head), list[tuple[int, str]]()
    for n in needed:
        yield from differ(rest.count(f"\n{known.definitions[n]}\n") >= 1, True, f"{n} in {text}")
        order.append((rest.find(f"\n{known.definitions[n]}\n"), n))
    length = sum(len(known.definitions[n]) + 1 for n in needed) + 1
    yield from differ(len(rest), length, f"the length of what {text} needs")
    seen = set[str]()
    for _, n in sorted(order):
        uses = {*_WORD.findall(known.definitions[n])} & needed - {n}
        yield from differ(uses <= seen, True, f"{n} comes after {uses} in {text}")
        seen.add(n)
