"""Syntax trees of pycparser.  A child is Any: its parent's class tells which node it is."""

from typing import Any

class Coord:
    file: str
    line: int
    column: int | None

class Node:
    coord: Coord
    attr_names: tuple[str, ...]
    def __init__(self, *fields: Any) -> None: ...
    def children(self) -> tuple[tuple[str, Node], ...]: ...
    def __getattr__(self, name: str) -> Any: ...

class ArrayDecl(Node):
    type: Any
    dim: Any
    dim_quals: list[str]
    attributes: list[Any]

class ArrayDesignator(Node):
    expr: Any

class ArrayRef(Node):
    name: Any
    subscript: Any

class Assignment(Node):
    op: str
    lvalue: Any
    rvalue: Any

class Alignas(Node):
    alignment: Any

class Attribute(Node):
    name: str
    namespace: str
    arguments: str

class AttributeSpecifier(Node):
    attributes: list[Any]

class AttributeDeclaration(Node):
    attributes: list[Any]

class AttributedStatement(Node):
    attributes: list[Any]
    stmt: Any

class AttributedType(Node):
    type: Any
    attributes: list[Any]

class BinaryOp(Node):
    op: str
    left: Any
    right: Any

class BitIntType(Node):
    width: Any
    signedness: str

class Break(Node): ...

class Case(Node):
    expr: Any
    stmts: list[Any]
    attributes: list[Any]

class Cast(Node):
    to_type: Any
    expr: Any

class Compound(Node):
    block_items: list[Any]

class CompoundLiteral(Node):
    type: Any
    init: Any
    storage: list[str]

class Constant(Node):
    type: str
    value: str

class Continue(Node): ...

class Decl(Node):
    name: str
    quals: list[str]
    align: list[Alignas]
    storage: list[str]
    funcspec: list[str]
    type: Any
    init: Any
    bitsize: Any
    attributes: list[Any]

class DeclList(Node):
    decls: list[Any]

class Default(Node):
    stmts: list[Any]
    attributes: list[Any]

class DoWhile(Node):
    cond: Any
    stmt: Any

class EllipsisParam(Node): ...
class EmptyStatement(Node): ...

class Enum(Node):
    name: str
    values: Any
    underlying_type: Any
    attributes: list[Any]

class Enumerator(Node):
    name: str
    value: Any
    attributes: list[Any]

class EnumeratorList(Node):
    enumerators: list[Any]

class ExprList(Node):
    exprs: list[Any]

class FileAST(Node):
    ext: list[Any]

class For(Node):
    init: Any
    cond: Any
    next: Any
    stmt: Any

class FuncCall(Node):
    name: Any
    args: Any

class FuncDecl(Node):
    args: Any
    type: Any
    attributes: list[Any]

class FuncDef(Node):
    decl: Any
    param_decls: list[Any]
    body: Any

class GenericAssociation(Node):
    type: Any
    expr: Any

class GenericSelection(Node):
    expr: Any
    associations: list[Any]

class Goto(Node):
    name: str

class ID(Node):
    name: str

class IdentifierType(Node):
    names: list[str]

class If(Node):
    cond: Any
    iftrue: Any
    iffalse: Any

class InferredType(Node): ...

class InitList(Node):
    exprs: list[Any]

class Label(Node):
    name: str
    stmt: Any
    attributes: list[Any]

class NamedInitializer(Node):
    name: list[Any]
    expr: Any

class ParamList(Node):
    params: list[Any]

class PtrDecl(Node):
    quals: list[str]
    type: Any
    attributes: list[Any]

class Return(Node):
    expr: Any

class StaticAssert(Node):
    cond: Any
    message: Any

class Struct(Node):
    name: str
    decls: list[Any]
    attributes: list[Any]

class StructRef(Node):
    name: Any
    type: str
    field: Any

class Switch(Node):
    cond: Any
    stmt: Any

class TernaryOp(Node):
    cond: Any
    iftrue: Any
    iffalse: Any

class TypeDecl(Node):
    declname: str
    quals: list[str]
    align: list[str]
    type: Any
    attributes: list[Any]

class Typedef(Node):
    name: str
    quals: list[str]
    storage: list[str]
    type: Any
    attributes: list[Any]

class Typename(Node):
    name: str
    quals: list[str]
    align: list[str]
    type: Any
    attributes: list[Any]

class TypeOf(Node):
    op: str
    expr: Any

class UnaryOp(Node):
    op: str
    expr: Any

class Union(Node):
    name: str
    decls: list[Any]
    attributes: list[Any]

class While(Node):
    cond: Any
    stmt: Any

class Pragma(Node):
    string: str
