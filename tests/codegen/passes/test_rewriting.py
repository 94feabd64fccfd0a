"""Passes that write functions anew keep nodes without results, which bind sizes."""

from __future__ import annotations

from didyma.codegen.options import Options
from didyma.codegen.passes.channels import STORED
from didyma.codegen.pipeline import compile
from didyma.refimpl.ir.text import parse_module

BESIDE = parse_module("""module {
  dims r in [0, 9]
  func @main(%x: f16[1, 16, 1], %w: f16[8, 16, 1], %size: i64[]) -> (%y, %z) {
    %y = conv(%x, %w, dilations=(1,), groups=1, high=(0,), low=(0,), strides=(1,)) : f16[1, 8, 1]
    () = bind(%size, dim="r")
    %i = iota(axis=0, dtype=i64, shape=(r,)) : i64[r]
    %z = sum(%i, axes=(0,), keepdims=false) : i64[]
  }
}
""")


def test_a_size_may_be_bound_beside_a_convolution_that_reads_its_channels_last() -> None:
    heard = list[str]()
    options = Options(target="sm_90a")
    made = compile(BESIDE, options, until="fuse", heard=lambda name, _: heard.append(name))
    assert STORED in heard
    assert "bind" in {n.op for f in made.fused.functions for n in f.nodes}
