"""Cases of onnx's own test suites: the node tests, and the small models that its wheel holds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests, load_node_model_tests

NODE = "node"
MODELS = ("pytorch-converted", "pytorch-operator", "simple")


def cases(suites: Sequence[str] = (NODE,)) -> list[TestCase]:
    """Return every case of some suites of the installed onnx, with its model and its data."""
    return [case for suite in suites for case in _suite(suite)]


def _suite(suite: str) -> Iterator[TestCase]:
    if suite == NODE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from load_node_model_tests()
        return
    for case in sorted(load_model_tests(kind=suite), key=lambda c: str(c.name)):
        assert case.model_dir is not None
        folder = Path(case.model_dir)
        m = onnx.load_model_from_string((folder / "model.onnx").read_bytes())
        yield replace(case, model=m, data_sets=[_data(d, m) for d in _data_folders(folder)])


def _data_folders(folder: Path) -> list[Path]:
    found = sorted(folder.glob("test_data_set_*"))
    assert found, f"{folder} has no data"
    return found


def _data(folder: Path, m: onnx.ModelProto) -> tuple[list[Any], list[Any]]:
    """Return the inputs and the expected outputs of one data set."""
    outputs = _values(folder, "output", m.graph.output)
    assert outputs, f"{folder} expects nothing"
    return _values(folder, "input", m.graph.input), outputs


def _values(folder: Path, what: str, declared: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    files = takewhile(Path.exists, (folder / f"{what}_{i}.pb" for i in count()))
    return [_value(f, d.type) for f, d in zip(files, declared, strict=False)]


def _value(file: Path, type: onnx.TypeProto) -> Any:
    if type.WhichOneof("value") == "sequence_type":
        held = onnx.SequenceProto()
        held.ParseFromString(file.read_bytes())
        return numpy_helper.to_list(held)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(file.read_bytes())
    return numpy_helper.to_array(tensor)
