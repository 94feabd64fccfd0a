"""The text of graph modules."""

from __future__ import annotations

from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import CALL, Attr, Attrs, Function, Module, Node, Param
from didyma.refimpl.ir.text.literals import (
    attrs_text,
    global_name,
    plain_name,
    type_text,
    value_name,
    word,
)
from didyma.refimpl.ir.text.reader import Files, Reader


def dims_text(declared: tuple[DimVar, ...]) -> str:
    """Return the text of declarations: ``dims n in [1, 8]``; empty for none."""
    each = ", ".join(f"{plain_name(v.name)} in [{v.lo}, {v.hi}]" for v in declared)
    return f"dims {each}" if each else ""


def _callee(n: Node) -> tuple[str, Attrs] | None:
    """Return callee and other attributes, if the short form of a call says it all."""
    names = [k for k, _ in n.attrs]
    callee = dict(n.attrs).get("callee")
    if n.op != CALL or type(callee) is not str or names != sorted(set(names)):
        return None
    return callee, tuple((k, v) for k, v in n.attrs if k != "callee")


def show_node(n: Node, elide: bool = True) -> str:
    """Return the text of a node, on one line; ``elide`` leaves out the bytes of large constants."""
    short = _callee(n)
    args = [value_name(a) for a in n.args]
    if short:
        head, attrs = f"call {global_name(short[0])}", short[1]
    else:
        head, attrs = word(n.op), n.attrs
    results = ", ".join(value_name(r) for r in n.results) or "()"
    types = ", ".join(type_text(t) for t in n.types)
    call = f"{head}({', '.join(args + attrs_text(attrs, elide))})"
    return f"{results} = {call}{' : ' if types else ''}{types}"


def show_function(f: Function, elide: bool = False) -> str:
    """Return the text of a function."""
    params = ", ".join(f"{value_name(p.name)}: {type_text(p.type)}" for p in f.params)
    results = ", ".join(value_name(r) for r in f.results)
    attrs = f" attrs({', '.join(attrs_text(f.attrs))})" if f.attrs else ""
    lines = [f"  func {global_name(f.name)}({params}) -> ({results}){attrs} {{"]
    lines += [f"    {show_node(n, elide)}" for n in f.nodes]
    return "\n".join([*lines, "  }"])


def show_module(m: Module) -> str:
    """Return the text of a module."""
    declared = dims_text(m.dims)
    lines = ["module {", *([f"  {declared}"] if declared else [])]
    lines += [show_function(f) for f in m.functions]
    return "\n".join([*lines, "}"]) + "\n"


class GraphReader(Reader):
    """Reads modules; ``places`` are the words at which functions, parameters and nodes begin."""

    def __init__(self, text: str, source: str, files: Files | None = None) -> None:
        super().__init__(text, source, files)
        self.places: list[tuple[str, Param | Node | None, int]] = []

    def module(self) -> Module:
        """Parse a text that is a module: ``module { dims ... func ... }``."""
        self.expect("module")
        self.expect("{")
        declared = self.dimvars()
        functions: list[Function] = []
        while not self.accept("}"):
            if not self.at("func"):
                raise self.error("`func` or `}`")
            functions.append(self._function())
        self.end()
        return Module(tuple(functions), declared)

    def _function(self) -> Function:
        at = self.i
        self.expect("func")
        name = self.function()
        self.places.append((name, None, at))
        self.expect("(")
        params = self.items(lambda: self._param(name), ")")
        self.expect("->")
        self.expect("(")
        results = self.items(self.value, ")")
        attrs = self.attrs()
        self.expect("{")
        nodes: list[Node] = []
        while not self.accept("}"):
            at = self.i
            nodes.append(self._node())
            self.places.append((name, nodes[-1], at))
        return Function(name, params, tuple(nodes), results, attrs)

    def _param(self, function: str) -> Param:
        at = self.i
        found = Param(*self.typed_value())
        self.places.append((function, found, at))
        return found

    def _node(self) -> Node:
        results: list[str] = []
        if self.accept("("):
            self.expect(")")
        else:
            if self.kind != "value":
                raise self.error("a node such as `%y = exp(%x) : f32[4]`, or `}`")
            results.append(self.value())
            while self.accept(","):
                results.append(self.value())
        self.expect("=")
        op = self.label("the name of an op")
        callee = self.function() if op == CALL and self.kind == "global" else None
        self.expect("(")
        args, attrs = self._operands()
        if callee is not None:
            at = sum(k < "callee" for k, _ in attrs)
            attrs.insert(at, ("callee", callee))
        types = [self.type()] if self.accept(":") else []
        while types and self.accept(","):
            types.append(self.type())
        return Node(tuple(results), op, tuple(args), tuple(types), tuple(attrs))

    def _operands(self) -> tuple[list[str], list[tuple[str, Attr]]]:
        args: list[str] = []
        attrs: list[tuple[str, Attr]] = []
        while not self.at(")"):
            if self.kind == "value" and not attrs:
                args.append(self.value())
            elif self.kind in ("name", "string"):
                attrs.append(self.named_attr())
            else:
                raise self.error("an operand such as %x, an attribute such as axis=1, or `)`")
            if not self.accept(","):
                break
        self.expect(")")
        return args, attrs
