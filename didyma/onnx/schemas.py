"""Operator schemas of ONNX: the attributes, operands and types that an operator takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import onnx
from onnx.defs import OpSchema

from didyma.onnx.context import Context

DOMAINS = ("", "ai.onnx")
NEWEST = onnx.defs.onnx_opset_version()


class EnumMember(Protocol):
    """A member of one of onnx's enumerations."""

    name: str
    value: int


class Attribute(Protocol):
    """An attribute of a schema."""

    type: EnumMember
    required: bool
    default_value: onnx.AttributeProto


class Formal(Protocol):
    """An operand or output of a schema."""

    name: str
    option: object
    type_str: str


class Constraint(Protocol):
    """The types that a type variable of a schema allows."""

    type_param_str: str
    allowed_type_strs: Sequence[str]


class Schema(Protocol):
    """The part of ``onnx.defs.OpSchema`` that is used here; onnx declares types for some of it."""

    name: str
    domain: str
    deprecated: bool
    since_version: int
    min_input: int
    max_input: int
    min_output: int
    max_output: int
    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: Sequence[int]
    context_dependent_function_opset_versions: Sequence[int]

    attributes: Mapping[str, Attribute]
    inputs: Sequence[Formal]
    outputs: Sequence[Formal]
    type_constraints: Sequence[Constraint]

    def get_function_with_opset_version(self, version: int, /) -> bytes:
        """Return a serialised FunctionProto."""
        ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: Sequence[bytes], /
    ) -> bytes:
        """Return the serialised FunctionProto for a node and its operand types."""
        ...


def schemas(domain: str = "") -> list[Schema]:
    """Return the newest schemas of a domain."""
    every = cast("list[Schema]", onnx.defs.get_all_schemas())
    return [s for s in every if s.domain == domain]


def schema_of(op: str, opset: int, domain: str = "") -> Schema | None:
    """Return the schema of an operator at an opset; None if there is none."""
    try:
        return cast("Schema", onnx.defs.get_schema(op, min(opset, NEWEST), domain))
    except (onnx.defs.SchemaError, TypeError):  # unknown, or not a version number
        return None


def check(c: Context, n: onnx.NodeProto, schema: Schema) -> None:
    """Raise ``onnx-broken`` unless a node's attributes and operand counts fit its schema."""
    newest = schema_of(n.op_type, NEWEST, schema.domain)
    if schema.deprecated and (newest is None or newest.deprecated):
        got = f"{n.op_type}, which opset {schema.since_version} removed"
        raise c.error(
            got, f"an operator of opset {c.opset}", "export the model again, with another opset"
        )
    for a in n.attribute:
        if a.name not in schema.attributes:
            names = ", ".join(sorted(schema.attributes)) or "none"
            raise c.broken(f"the attribute {a.name}", f"one of: {names}")
        want = schema.attributes[a.name].type
        if int(a.type) != int(want.value):
            kinds = onnx.AttributeProto.AttributeType
            got = kinds.Name(a.type) if a.type in kinds.values() else str(a.type)
            raise c.broken(f"{a.name} of type {got}", f"{a.name} of type {want.name}")
    given = {a.name for a in n.attribute}
    for name, spec in schema.attributes.items():
        if spec.required and name not in given:
            raise c.broken(f"attributes {sorted(given)}", f"the attribute {name}")
    for what, many, low, high in (
        ("operands", n.input, schema.min_input, schema.max_input),
        ("outputs", n.output, schema.min_output, schema.max_output),
    ):
        if not low <= len(many) <= high:
            raise c.broken(f"{len(many)} {what}", f"from {low} to {high}")
    for i, formal in enumerate(schema.inputs):
        single = formal.option == OpSchema.FormalParameterOption.Single
        if single and (i >= len(n.input) or not n.input[i]):
            raise c.broken(f"no operand {formal.name}", "a required operand")


def defaults(schema: Schema) -> dict[str, onnx.AttributeProto]:
    """Return the default values of optional attributes."""
    specs = schema.attributes
    return {n: a.default_value for n, a in specs.items() if a.default_value.type}
