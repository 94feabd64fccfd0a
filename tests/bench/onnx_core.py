"""Which of ONNX's node tests are core: plain element types, and no op of the wider families."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

PLAIN = frozenset(
    {
        TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL,
        TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
        TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
    }
)  # fmt: skip
# Ops by family, beyond elementwise, movement, reduction, products and convolution (of integers as
# well), pooling, gather, scatter, normalisation, losses and control flow.
WIDER = {
    "attention": "Attention RotaryEmbedding",
    "quantised": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearMatMul QLinearConv",
    "resampling": "Resize Upsample GridSample AffineGrid RoiAlign MaxRoiPool",
    "sizes by value": "TopK Unique NonZero Compress NonMaxSuppression",
    "recurrent and signal": "RNN LSTM GRU DFT STFT MelWeightMatrix HannWindow HammingWindow "
    "BlackmanWindow CausalConvWithState LinearAttention",
    "sequences": "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
    "SequenceLength SequenceMap SplitToSequence ConcatFromSequence Optional OptionalGetElement "
    "OptionalHasElement",
    "random": "RandomUniform RandomNormal RandomUniformLike RandomNormalLike Bernoulli Multinomial",
    "strings and learning": "StringConcat StringSplit StringNormalizer RegexFullMatch "
    "TfIdfVectorizer LabelEncoder ImageDecoder Adam Adagrad Momentum Gradient TreeEnsemble "
    "ArrayFeatureExtractor Binarizer",
}
_WIDER = frozenset(" ".join(WIDER.values()).split())


def is_core(model: ModelProto) -> bool:
    """Tell whether a node test's model keeps to plain types and core ops."""
    nodes = [*_nodes(model.graph), *(n for f in model.functions for n in f.node)]
    return _WIDER.isdisjoint(n.op_type for n in nodes) and PLAIN.issuperset(_types(model.graph))


def _subgraphs(n: NodeProto) -> Iterator[GraphProto]:
    return (a.g for a in n.attribute if a.type == AttributeProto.GRAPH)


def _nodes(g: GraphProto) -> Iterator[NodeProto]:
    for n in g.node:
        yield n
        for inner in _subgraphs(n):
            yield from _nodes(inner)


def _types(g: GraphProto) -> Iterator[int]:
    for v in (*g.input, *g.output, *g.value_info):
        yield from _type(v.type)
    yield from (t.data_type for t in g.initializer)
    for n in g.node:
        for a in n.attribute:
            if a.name in ("to", "dtype") and a.type == AttributeProto.INT:
                yield a.i
            if a.type == AttributeProto.TENSOR:
                yield a.t.data_type
        for inner in _subgraphs(n):
            yield from _types(inner)


def _type(t: TypeProto) -> Iterator[int]:
    kind = t.WhichOneof("value")
    if kind == "tensor_type":
        yield t.tensor_type.elem_type
    elif kind is not None:
        yield onnx.TensorProto.UNDEFINED  # a sequence, an optional: no plain tensor
