"""Checks that the function of a kernel's text is in the subset: its forms, types and names.

Engines read the text in different ways: a C compiler takes all of C and knows scopes, while
``simt`` takes these forms alone, and has one table of variables.  What they could read differently
is refused before any of them sees it, a variable that hides another among it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from pycparser import c_ast as c

from didyma.codegen.emit.intrinsics import SYNTAX, TYPES, VECTORS

STEPS = ("++", "p++", "--", "p--")
_SIGNS = ("-", "!", "~")
_FORMS = "declarations, assignments, if, for, while and calls of intrinsics"
_VALUES = "literals, names, elements a[i], lanes v.x, operators, casts and calls of intrinsics"
_WORDS = {"DoWhile": "do", "FuncDef": "function"}  # of classes of pycparser; else their own names


@dataclass(frozen=True, slots=True)
class _Name:
    """A variable that is known: whether it is a pointer or array, and what it holds is const."""

    points: bool
    const: bool


Fault: TypeAlias = tuple[Any, str, str]  # the part of the tree, what it is, what is wanted
_Names: TypeAlias = dict[str, _Name]


def faults(f: c.FuncDef) -> Iterator[Fault]:
    """Yield what takes a function out of the subset, in the order of the text."""
    names: _Names = {}
    args = f.decl.type.args
    for p in args.params if args is not None else ():
        yield from _declare(p, names)
    for n in f.body.block_items or ():  # of one scope with the arguments
        yield from _statement(n, names)


def _statement(n: Any, names: _Names) -> Iterator[Fault]:
    match n:
        case c.Compound():
            inner = dict(names)
            for each in n.block_items or ():
                yield from _statement(each, inner)
        case c.DeclList():
            for each in n.decls:
                yield from _declaration(each, names)
        case c.Decl():
            yield from _declaration(n, names)
        case c.Assignment():
            yield from _value(n.rvalue, names)
            yield from _change(n.lvalue, names)
        case c.If():
            yield from _value(n.cond, names)
            for branch in (n.iftrue, n.iffalse):
                if branch is not None:
                    yield from _statement(branch, dict(names))
        case c.For():
            if any(part is None for part in (n.init, n.cond, n.next)):
                yield n, "a for loop without one of its parts", "all three, or a while loop"
                return
            inner = dict(names)
            yield from _statement(n.init, inner)
            yield from _value(n.cond, inner)
            yield from _statement(n.next, inner)
            yield from _statement(n.stmt, inner)
        case c.While():
            yield from _value(n.cond, names)
            yield from _statement(n.stmt, dict(names))
        case c.FuncCall() | c.UnaryOp(op="++" | "p++" | "--" | "p--"):
            yield from _value(n, names)
        case c.Cast() if _type_name(n.to_type) == "void":
            yield from _value(n.expr, names)
        case c.Pragma() | c.EmptyStatement():
            pass
        case _:
            yield n, f"{_called(n)} as a statement", _FORMS


def _declaration(n: c.Decl, names: _Names) -> Iterator[Fault]:
    match n.type:
        case c.TypeDecl():
            if n.init is not None:
                yield from _value(n.init, names)
        case c.ArrayDecl(type=c.TypeDecl(), dim=c.Constant()):
            if n.init is not None:
                yield n, f"values for the array {n.name}", "a store to each element"
        case c.ArrayDecl(type=c.TypeDecl()):
            yield n, "an array of another size", "an array of a literal size"
        case _:
            yield n, f"the declaration of {n.name}", "numbers, vectors and arrays of one axis"
            return
    if (t := _type_name(n.type)) not in TYPES and t not in VECTORS:
        yield n, f"the type {t}", "a dtype such as f32, or a vector such as f32x4"
    yield from _declare(n, names)


def _value(n: Any, names: _Names) -> Iterator[Fault]:
    match n:
        case c.Constant(type="string" | "char"):
            yield n, f"the literal {n.value}", _VALUES
        case c.Constant():
            pass
        case c.ID():
            yield from _known(n, names)
        case c.ArrayRef(name=c.ID()):
            yield from _known(n.name, names)
            yield from _value(n.subscript, names)
        case c.StructRef(name=c.ID(), type="."):
            yield from _known(n.name, names)
        case c.BinaryOp():
            yield from _value(n.left, names)
            yield from _value(n.right, names)
        case c.UnaryOp() if n.op in STEPS and isinstance(n.expr, c.ID):
            yield from _known(n.expr, names)
            yield from _change(n.expr, names)
        case c.UnaryOp() if n.op in _SIGNS:
            yield from _value(n.expr, names)
        case c.TernaryOp():
            for part in (n.cond, n.iftrue, n.iffalse):
                yield from _value(part, names)
        case c.Cast():
            of_number = isinstance(n.to_type.type, c.TypeDecl)
            if (t := _type_name(n.to_type)) not in TYPES or not of_number:
                yield n, f"a cast to {t}" + " *" * (not of_number), "a cast to a dtype such as f32"
            yield from _value(n.expr, names)
        case c.FuncCall():
            for a in n.args.exprs if n.args else ():
                yield from _value(a.expr if isinstance(a, c.UnaryOp) and a.op == "&" else a, names)
        case _:
            yield n, f"{_called(n)} as a value", _VALUES


def _known(n: c.ID, names: _Names) -> Iterator[Fault]:
    if n.name not in names and n.name not in SYNTAX:
        yield n, f"the name {n.name}", "names that are arguments or declared above"


def _declare(n: Any, names: _Names) -> Iterator[Fault]:
    if n.name in names or n.name in SYNTAX:
        yield n, f"{n.name} again", "another name: none hides another, or is declared twice"
    points, held = not isinstance(n.type, c.TypeDecl), n.type
    while isinstance(held, c.PtrDecl | c.ArrayDecl):
        held = held.type
    names[n.name] = _Name(points, "const" in held.quals)


def _change(to: Any, names: _Names) -> Iterator[Fault]:
    """Yield a fault if what is assigned to is no variable, element or lane, or is const."""
    match to:
        case c.ID() | c.StructRef(name=c.ID(), type="."):
            root, element = to if isinstance(to, c.ID) else to.name, False
        case c.ArrayRef(name=c.ID()):
            root, element = to.name, True
            yield from _value(to.subscript, names)
        case _:
            yield to, f"an assignment to {_called(to)}", "one to a variable, an element or a lane"
            return
    yield from _known(root, names)
    found = names.get(root.name)
    if root.name in SYNTAX or (found is not None and found.points != element):
        yield to, f"an assignment to {root.name}", "one to a variable, an element or a lane"
    elif found is not None and found.const:
        yield to, f"an assignment to {root.name}, which is const", "what is not const"


def _type_name(t: Any) -> str:
    while not isinstance(t, c.IdentifierType):
        if isinstance(t, c.PtrDecl | c.ArrayDecl | c.TypeDecl | c.Typename):
            t = t.type
        else:
            return _called(t)
    return " ".join(t.names)


def _called(n: Any) -> str:
    """Return the form of a part of a tree in words.

    >>> _called(c.Return(None)), _called(c.DoWhile(None, None))
    ('return', 'do')
    """
    name = type(n).__name__
    return _WORDS.get(name, f"{name}({n.op})" if isinstance(n, c.UnaryOp) else name.lower())
