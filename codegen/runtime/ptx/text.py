"""PTX text to functions of instructions, each with the source line that ``.loc`` gives it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePath
from typing import NoReturn, TypeAlias

from didyma.codegen.runtime.ptx.code import (
    SIZES,
    Function,
    Imm,
    Instr,
    Loc,
    Module,
    Not,
    Operand,
    Pair,
    Place,
    Reg,
    Sink,
    Special,
    Symbol,
    Tensor,
    Variable,
    Vector,
)
from didyma.refimpl.errors import DidymaError

NEWEST = (9, 5)  # version of PTX whose instructions are known
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_SPACE = re.compile(r"\s*")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_LINE = re.compile(r"\.(loc|file|version|target|address_size)\b[^\n]*")
_VERSION = re.compile(r"\.version\s+(\d+)\.(\d+)")
_FILE = re.compile(r"\.file\s+(\d+)\s+\"([^\"]*)\"")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
_LINKING = re.compile(r"(?:\.(?:visible|extern|weak|common)\s+)*")
_HEAD = re.compile(r"(?:\.(?:visible|extern|weak|common)\s+)*\.(entry|func)\b")
_SIGNATURE = re.compile(
    r"\s*(?:\((?P<returns>.*?)\))?\s*(?P<name>[\w$%]+)\s*(?:\((?P<params>.*?)\))?[^()]*$", re.S
)
_CLUSTER = re.compile(r"\.reqnctapercluster\s+([\d,\s]+)")
_BLOCK = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+(?:\s*,\s*\d+)*)")
_POINTER = re.compile(r"\.ptr(\s*\.(global|shared|const|local))?(\s*\.align\s+\d+)?")
_VARIABLE = re.compile(
    r"\.(global|shared|const|local|param)\b(.*?)\.(\w+)\s+([\w$%]+)\s*((?:\[\d*\]\s*)*)"
    r"(?:=\s*(.*))?$",
    re.S,
)
_NUMBER = re.compile(
    r"-?(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|\d+U?|\d*\.\d+([eE][-+]?\d+)?"
    r"|\d+\.\d*([eE][-+]?\d+)?|\d+[eE][-+]?\d+)$"
)
_SPECIAL = re.compile(
    r"%(tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|clock|clock_hi|clock64|globaltimer\w*|smid"
    r"|nsmid|gridid|lanemask_\w+|dynamic_smem_size|total_smem_size|aggr_smem_size|cluster_\w+"
    r"|clusterid|nclusterid|is_explicit_cluster|envreg\d+|reserved_smem_offset\w*|current_graph_exec)(\.[xyz])?$"
)
_PLACE = re.compile(r"([\w$%]+)\s*(?:\+\s*(-?\w+))?$")
_OFFSET = re.compile(r"([\w$%]+)\s*\+\s*(-?\d+)$")
_REGISTERS = re.compile(r"([\w$%]+)(?:<(\d+)>)?$")
_GENERIC = re.compile(r"(?:generic\s*\(\s*)?([\w$%]+)\s*\)?\s*(?:\+\s*(\d+))?$")
_MASKED = re.compile(
    r"0[xX][fF]+0*\(\s*(?:generic\s*\(\s*)?([\w$%]+)\s*\)*\s*(?:\+\s*(\d+))?\s*\)*$"
)
_JOINED = re.compile(r"^(\.reg)\s*\.")
_NAME = re.compile(r"[a-z][\w.:]*$")

_Mark: TypeAlias = tuple[int, int, int]  # of .loc: file, line, column
_Scopes: TypeAlias = list[dict[str, Reg | Vector]]  # of 128 bits: two registers of 64


def parse(text: str, newest: tuple[int, int] | None = None) -> Module:
    """Parse a module; DidymaError ``bad-ptx`` with the line that cannot be read.

    One that states a version after the ``newest``, if any, is refused.

    >>> m = parse(".visible .entry k(.param .u64 p) { .reg .b32 %r<2>; mov.u32 %r1, %tid.x; ret; }")
    >>> [i.name for i in m.functions["k"].instrs]
    ['mov.u32', 'ret']
    """
    return _Parser(text, newest).module()


def split(text: str) -> list[str]:
    """Split at the commas that no bracket encloses."""
    parts: list[str] = []
    depth = start = 0
    for i, ch in enumerate(text):
        if ch in "([{":
            depth += 1
        elif ch in ")]}":
            depth -= 1
        elif ch == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


@lru_cache(maxsize=1 << 14)  # forms of a kernel that are compiled one after the other differ little
def _parts(text: str) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """Return the guard, the name, the modifiers and the operands of an instruction.

    The name is empty where there is none.
    """
    test = ""
    if text[0] == "@":
        test, _, text = text[1:].partition(" ")
    op, _, rest = text.partition(" ")
    head, *mods = op.split(".") if _NAME.match(op) else ("",)
    return test, head, tuple(mods), tuple(split(rest))


class _Parser:
    def __init__(self, text: str, newest: tuple[int, int] | None) -> None:
        self.newest = newest
        self.text = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
        self.starts = [m.start() for m in re.finditer(r"^", self.text, re.M)]
        self.at = 0
        self.out = Module()
        self.files = {int(n): PurePath(f).name for n, f in _FILE.findall(self.text)}
        self.loc: Loc | None = None
        self.marks: dict[_Mark, Loc] = {}

    def refuse(self, got: str, at: int | None = None, want: str = "PTX") -> NoReturn:
        line = bisect_right(self.starts, self.at if at is None else at)
        shown = " ".join(got.split())[:80]
        raise DidymaError("bad-ptx", f"line {line} of the PTX", got=shown, want=want)

    def more(self) -> bool:
        if m := _SPACE.match(self.text, self.at):
            self.at = m.end()
        return self.at < len(self.text)

    def upto(self, stops: str) -> str:
        """Return the text up to one of some characters, and go past it."""
        ends = [e for s in stops if (e := self.text.find(s, self.at)) >= 0]
        if not ends:
            self.refuse(self.text[self.at : self.at + 80])
        start, self.at = self.at, min(ends) + 1
        return self.text[start : self.at - 1]

    def directive(self) -> bool:
        """Read a directive that ends with its line, if one comes next."""
        m = _LINE.match(self.text, self.at)
        if m is None:
            return False
        self.at = m.end()
        version = _VERSION.match(m[0])
        if version and self.newest and (int(version[1]), int(version[2])) > self.newest:
            newest = ".".join(map(str, self.newest))
            self.refuse(m[0].strip(), m.start(), f"version {newest} of PTX or one before it")
        if m[1] == "address_size" and m[0].split()[-1] != "64":
            self.refuse(m[0], m.start(), "addresses of 64 bits")
        if m[1] == "target" and "debug" in m[0]:
            self.out.debug = True
        if (loc := _LOC.match(m[0])) and int(loc[2]):  # line 0 has no source: the last one stays
            mark, inlined = _mark(loc), _INLINED.search(m[0])
            outer = self.marks.get(_mark(inlined), self.place(_mark(inlined))) if inlined else None
            self.loc = self.marks[mark] = self.place(mark, outer)
        return True

    def place(self, mark: _Mark, outer: Loc | None = None) -> Loc:
        return Loc(self.files.get(mark[0], str(mark[0])), mark[1], outer)

    def module(self) -> Module:
        while self.more():
            if self.directive():
                continue
            if self.text.startswith(".section", self.at):
                self.upto("}")
            elif head := _HEAD.match(self.text, self.at):
                self.at = head.end()
                self.function(head[1] == "entry")
            else:
                start = self.at
                text = _LINKING.sub("", self.upto(";").strip(), count=1)
                if not text.startswith((".pragma", ".alias")):
                    v = self.variable(text, start)
                    self.out.variables[v.name] = v
        return self.out

    def function(self, entry: bool) -> None:
        start = self.at
        text = re.sub(r"\.attribute\s*\([^)]*\)", "", self.upto("{;"))
        m = _SIGNATURE.match(text)
        if m is None:
            self.refuse(text, start)
        f = Function(m["name"], entry)
        if cluster := _CLUSTER.search(text):
            x, y, z = (*map(int, cluster[1].split(",")), 1, 1)[:3]
            f.cluster = x, y, z
        if block := _BLOCK.search(text):
            x, y, z = (*map(int, block[1].split(",")), 1, 1)[:3]
            f.block = x, y, z
        for given, into in ((m["returns"], f.returns), (m["params"], f.params)):
            into += [self.variable(_POINTER.sub("", p), start) for p in split(given or "")]
        if self.text[self.at - 1] == "{":
            self.body(f)
            f.defined = True
        if f.defined or f.name not in self.out.functions:
            self.out.functions[f.name] = f

    def variable(self, text: str, at: int) -> Variable:
        m = _VARIABLE.match(text.strip())
        if m is None or m[3] not in SIZES:
            self.refuse(text, at)
        space, attributes, kind, name, shape, init = m.groups()
        count = 1
        for n in re.findall(r"\[(\d*)\]", shape):
            count *= int(n or 0)
        align = re.search(r"\.align\s+(\d+)", attributes)
        data, refers = _value(init or "", SIZES[kind])
        size = SIZES[kind] * count
        place = int(align[1]) if align else SIZES[kind]
        return Variable(space, name, place, size, data, refers, kind)

    def body(self, f: Function) -> None:
        scopes: _Scopes = [{}]
        opened: list[tuple[int, dict[str, str]]] = []  # first instruction, new names of labels
        while self.more():
            ch = self.text[self.at]
            if ch == "{":
                scopes.append({})
                opened.append((len(f.instrs), {}))
                self.at += 1
            elif ch == "}":
                self.at += 1
                scopes.pop()
                if not scopes:
                    return
                start, names = opened.pop()
                if names:
                    f.instrs[start:] = [_renamed(i, names) for i in f.instrs[start:]]
            elif self.directive():
                pass
            elif label := _LABEL.match(self.text, self.at):
                name = label[1]
                if opened:
                    opened[-1][1][label[1]] = name = f"{name}#{len(f.labels)}"
                f.labels[name] = len(f.instrs)
                self.at = label.end()
            else:
                self.statement(f, scopes)
        self.refuse(f"function {f.name} without an end")

    def statement(self, f: Function, scopes: _Scopes) -> None:
        start = self.at
        text = " ".join(self.upto(";").split())
        if text.startswith(".reg"):
            self.declare(f, text, scopes[-1], start)
        elif text.startswith(".branchtargets"):
            name = [k for k, v in f.labels.items() if v == len(f.instrs)][-1]
            f.targets[name] = tuple(split(text.partition(" ")[2]))
        elif text.startswith((".pragma", ".callprototype")):
            pass
        elif text.startswith("."):
            v = self.variable(text, start)
            if (before := f.variables.get(v.name)) is None or before.size < v.size:
                f.variables[v.name] = v
        elif text:
            f.instrs += _in_words(self.instruction(text, scopes, start))

    def declare(self, f: Function, text: str, scope: dict[str, Reg | Vector], at: int) -> None:
        parts = _JOINED.sub(r"\1 .", text, count=1).split(None, 2)
        if len(parts) < 3 or parts[1][1:] not in SIZES:
            self.refuse(text, at)
        for name in split(parts[2]):
            m = _REGISTERS.match(name)
            if m is None:
                self.refuse(text, at)
            for n in [f"{m[1]}{i}" for i in range(int(m[2]))] if m[2] else [m[1]]:
                kinds = ["b64", "b64"] if parts[1] == ".b128" else [parts[1][1:]]
                own = tuple(Reg(len(f.regs) + k) for k in range(len(kinds)))
                scope[n] = own[0] if len(own) == 1 else Vector(own)
                f.regs += kinds

    def instruction(self, text: str, scopes: _Scopes, at: int) -> Instr:
        guard = None
        test, head, mods, operands = _parts(text)
        if test:
            found = self.operand(test.lstrip("!"), scopes, at)
            if not isinstance(found, Reg):
                self.refuse(text, at)
            guard = found, test[0] == "!"
        if not head:
            self.refuse(text, at)
        args = tuple([self.operand(a, scopes, at) for a in operands])
        line = bisect_right(self.starts, at)
        return Instr(head, mods, args, guard, self.loc, line)

    def operand(self, t: str, scopes: _Scopes, at: int) -> Operand:
        for scope in reversed(scopes):
            if t in scope:
                return scope[t]
        if not t:
            self.refuse("an operand that is missing", at)
        if t == "_":
            return Sink()
        if t[0] in "{(":
            return Vector(tuple(self.operand(a, scopes, at) for a in split(t[1:-1])))
        if t[0] == "[":
            inner = split(t[1:-1])
            if len(inner) > 1:
                return Tensor(tuple(self.operand(a, scopes, at) for a in inner))
            m = _PLACE.match(inner[0]) if inner else None
            if m is None:
                self.refuse(t, at)
            return Place(self.operand(m[1], scopes, at), int(m[2], 0) if m[2] else 0)
        if t[0] == "!":
            return Not(self.operand(t[1:], scopes, at))
        if "|" in t:
            a, b = (self.operand(p.strip(), scopes, at) for p in t.split("|", 1))
            return Pair(a, b)
        if _NUMBER.match(t):
            return Imm(t)
        if _SPECIAL.match(t):
            return Special(t[1:])
        if t == "WARP_SZ":
            return Imm("32")
        if t[0] == "%" and not _SPECIAL.match(t):
            self.refuse(f"{t}, which is no register that was declared", at)
        m = _OFFSET.match(t)
        return Symbol(m[1], int(m[2])) if m else Symbol(t)


def _in_words(i: Instr) -> Iterator[Instr]:
    """Yield an instruction on 128 bits as what it does to two words of 64; others as they are."""
    if i.mods[-1:] != ("b128",):
        yield i
    elif i.op != "mov":
        yield replace(i, mods=(*i.mods[:-1], "v2", "b64"))
    else:
        pairs = (a.parts if isinstance(a, Vector) else (a,) for a in i.args)
        for words in zip(*pairs, strict=False):
            yield replace(i, mods=("b64",), args=words)


def _mark(m: re.Match[str]) -> _Mark:
    return int(m[1]), int(m[2]), int(m[3])


def _value(text: str, size: int) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
    """Return the bytes of an initialiser whose elements have a size, and the addresses in it.

    >>> _value("{1, f, generic(x)+8}", 8)[1]
    ((8, 'f', 0), (16, 'x', 8))
    """
    data, refers = b"", list[tuple[int, str, int]]()
    for part in re.findall(r"[^,{}\s](?:[^,{}]*[^,{}\s])?", text):
        if _NUMBER.match(part):
            whole = part[:2].lower() in ("0f", "0d")
            number = int(part[2:], 16) if whole else int(part.rstrip("U"), 0)
            data += (number % (1 << 64)).to_bytes(8, "little")[:size]
            continue
        masked, generic = _MASKED.match(part), _GENERIC.match(part)
        found = masked or generic
        name, offset = (found[1], int(found[2] or 0)) if found else (part, 0)
        if masked is None or masked[0].lower().startswith("0xff("):  # the lowest byte of an address
            refers.append((len(data), name, offset))
        data += bytes(size)
    return data, tuple(refers)


def _renamed(i: Instr, names: Mapping[str, str]) -> Instr:
    args = tuple(
        Symbol(names[a.name]) if isinstance(a, Symbol) and a.name in names else a for a in i.args
    )
    return Instr(i.op, i.mods, args, i.guard, i.loc, i.at)
