"""Fused modules with control flow, by hand, in text."""

from __future__ import annotations

from collections.abc import Mapping

from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.verify import graph

_KERNEL = "attrs(Primitive=1)"

BRANCH = f"""
module {{
  func @twice(%a: f32[8]) -> (%r) {_KERNEL} {{ %r = add(%a, %a) : f32[8] }}
  func @under(%a: f32[8]) -> (%r) {_KERNEL} {{ %r = negative(%a) : f32[8] }}
  func @any(%a: f32[8]) -> (%r) {_KERNEL} {{
    %z = constant(value=f32[] 3.0) : f32[]
    %m = max(%a, axes=(0,), keepdims=false) : f32[]
    %r = greater(%m, %z) : bool[]
  }}
  func @then(%x: f32[8], %y: f32[8]) -> (%t, %y) {{
    %t = call @twice(%x) : f32[8]
  }}
  func @other(%x: f32[8], %y: f32[8]) -> (%x, %u) {{
    %t = call @under(%y) : f32[8]
    %u = call @twice(%t) : f32[8]
  }}
  func @main(%x: f32[8], %y: f32[8]) -> (%p, %s) {{
    %c = call @any(%x) : bool[]
    %p, %q = if(%c, %x, %y, binds=(), otherwise="other", then="then") : f32[8], f32[8]
    %s = call @twice(%q) : f32[8]
  }}
}}
"""

# Two values change places each round, a third is halved.
SWAP = f"""
module {{
  func @half(%a: f32[4]) -> (%r) {_KERNEL} {{
    %h = constant(value=f32[] 0.5) : f32[]
    %r = multiply(%a, %h) : f32[4]
  }}
  func @large(%a: f32[4]) -> (%r) {_KERNEL} {{
    %one = constant(value=f32[] 1.0) : f32[]
    %m = max(%a, axes=(0,), keepdims=false) : f32[]
    %r = greater(%m, %one) : bool[]
  }}
  func @going(%u: f32[4], %v: f32[4], %w: f32[4]) -> (%c) {{
    %c = call @large(%w) : bool[]
  }}
  func @round(%u: f32[4], %v: f32[4], %w: f32[4]) -> (%v, %u, %h) {{
    %h = call @half(%w) : f32[4]
  }}
  func @main(%x: f32[4], %y: f32[4]) -> (%u, %v, %w, %k) {{
    %z = call @half(%y) : f32[4]
    %k = call @half(%x) : f32[4]
    %u, %v, %w = while(%x, %k, %z, binds=(), body="round", carried=3, cond="going")
      : f32[4], f32[4], f32[4]
  }}
}}
"""

# A running sum of the rows of x and of sums of indices, each of them kept; rows of 3 floats start
# anywhere.
SCAN = f"""
module {{
  dims n in [0, 6], i in [0, 5]
  func @plus(%a: f32[3], %x: f32[3]) -> (%r) {_KERNEL} {{
    %at = iota(axis=0, dtype=f32, shape=(i + 1,)) : f32[i + 1]
    %s = sum(%at, axes=(0,), keepdims=false) : f32[]
    %b = add(%a, %x) : f32[3]
    %r = add(%b, %s) : f32[3]
  }}
  func @step(%a: f32[3], %x: f32[3]) -> (%b, %b) {{
    %b = call @plus(%a, %x) : f32[3]
  }}
  func @main(%x: f32[n, 3], %a: f32[3]) -> (%last, %all) {{
    %last, %all = scan(%a, %x, body="step", index="i", length=n, scanned=1, states=1)
      : f32[3], f32[n, 3]
  }}
}}
"""

# The same with rows of 4, in a loop of three rounds.
NESTED = f"""
module {{
  dims n in [0, 6]
  func @plus(%a: f32[4], %x: f32[4]) -> (%r) {_KERNEL} {{ %r = add(%a, %x) : f32[4] }}
  func @zero() -> (%r) {_KERNEL} {{
    %r = constant(value=i64[] 0) : i64[]
  }}
  func @next(%a: i64[]) -> (%r) {_KERNEL} {{
    %one = constant(value=i64[] 1) : i64[]
    %r = add(%a, %one) : i64[]
  }}
  func @below(%a: i64[]) -> (%r) {_KERNEL} {{
    %three = constant(value=i64[] 3) : i64[]
    %r = less(%a, %three) : bool[]
  }}
  func @step(%a: f32[4], %x: f32[4]) -> (%b, %b) {{
    %b = call @plus(%a, %x) : f32[4]
  }}
  func @going(%k: i64[], %a: f32[4], %x: f32[n, 4]) -> (%c) {{
    %c = call @below(%k) : bool[]
  }}
  func @round(%k: i64[], %a: f32[4], %x: f32[n, 4]) -> (%k2, %last, %all) {{
    %k2 = call @next(%k) : i64[]
    %last, %all = scan(%a, %x, body="step", index="", length=n, scanned=1, states=1)
      : f32[4], f32[n, 4]
  }}
  func @main(%x: f32[n, 4], %a: f32[4]) -> (%k1, %a1, %x1) {{
    %k = call @zero() : i64[]
    %k1, %a1, %x1 = while(%k, %a, %x, binds=(), body="round", carried=3, cond="going")
      : i64[], f32[4], f32[n, 4]
  }}
}}
"""

# Doubles itself until it has m elements or more; then what is positive is kept.
GROWS = f"""
module {{
  dims n in [1, 4], m in [1, 20], g in [1, 40], u in [0, 40]
  func @doubled(%a: f32[g]) -> (%r) {_KERNEL} {{ %r = concat(%a, %a, axis=0) : f32[2*g] }}
  func @last(%y: f32[m]) -> (%r) {_KERNEL} {{
    %i = iota(axis=0, dtype=i64, shape=(m,)) : i64[m]
    %r = max(%i, axes=(0,), keepdims=false) : i64[]
  }}
  func @short(%a: f32[g], %l: i64[]) -> (%r) {_KERNEL} {{
    %j = iota(axis=0, dtype=i64, shape=(g,)) : i64[g]
    %k = max(%j, axes=(0,), keepdims=false) : i64[]
    %r = less(%k, %l) : bool[]
  }}
  func @count(%a: f32[g]) -> (%r) {_KERNEL} {{
    %z = constant(value=f32[] 0.0) : f32[]
    %p = greater(%a, %z) : bool[g]
    %i = cast(%p, dtype=i64) : i64[g]
    %r = sum(%i, axes=(0,), keepdims=false) : i64[]
  }}
  func @places(%a: f32[g]) -> (%r) {_KERNEL} {{
    %z = constant(value=f32[] 0.0) : f32[]
    %p = greater(%a, %z) : bool[g]
    %i = cast(%p, dtype=i64) : i64[g]
    %s = cumulative_sum(%i, axis=0, exclusive=true, reverse=false) : i64[g]
    %far = constant(value=i64[] 1000) : i64[]
    %r = where(%p, %s, %far) : i64[g]
  }}
  func @kept(%a: f32[g], %at: i64[g]) -> (%r) {_KERNEL} {{
    %blank = constant(value=f32[] 0.0) : f32[]
    %base = broadcast_to(%blank, shape=(u,)) : f32[u]
    %r = scatter(%base, %at, %a, axis=0, reduction="none") : f32[u]
  }}
  func @going(%a: f32[g], %y: f32[m]) -> (%c) {{
    %l = call @last(%y) : i64[]
    %c = call @short(%a, %l) : bool[]
  }}
  func @round(%a: f32[g], %y: f32[m]) -> (%b) {{
    %b = call @doubled(%a) : f32[2*g]
  }}
  func @main(%x: f32[n], %y: f32[m]) -> (%r, %k) {{
    %a = while(%x, %y, binds=("g",), body="round", carried=1, cond="going") : f32[g]
    %k = call @count(%a) : i64[]
    () = bind(%k, dim="u")
    %at = call @places(%a) : i64[g]
    %r = call @kept(%a, %at) : f32[u]
  }}
}}
"""

# Functions that stay: one calls another twice and hands operands on, from a loop's body as well;
# one has a weight and a size of its own.  %i and %n are the callers'.
STAYS = f"""
module {{
  dims n in [0, 6], i in [0, 5], u in [0, 24]
  func @plus(%a: f32[4], %x: f32[4]) -> (%r) {_KERNEL} {{ %r = add(%a, %x) : f32[4] }}
  func @index(%a: f32[4]) -> (%r) {_KERNEL} {{
    %at = iota(axis=0, dtype=f32, shape=(i + 1,)) : f32[i + 1]
    %s = sum(%at, axes=(0,), keepdims=false) : f32[]
    %r = add(%a, %s) : f32[4]
  }}
  func @any(%x: f32[n, 4], %w: f32[4]) -> (%r) {_KERNEL} {{
    %b = broadcast_to(%w, shape=(n, 4)) : f32[n, 4]
    %p = less(%x, %b) : bool[n, 4]
    %c = cast(%p, dtype=i64) : i64[n, 4]
    %r = sum(%c, axes=(0, 1), keepdims=false) : i64[]
  }}
  func @places() -> (%r) {_KERNEL} {{
    %at = iota(axis=0, dtype=i64, shape=(u,)) : i64[u]
    %r = sum(%at, axes=(0,), keepdims=false) : i64[]
  }}
  func @thrice(%a: f32[4], %b: f32[4]) -> (%t, %b) attrs(NoInline=1) {{
    %s = call @plus(%a, %b) : f32[4]
    %t = call @plus(%s, %b) : f32[4]
  }}
  func @row(%a: f32[4], %x: f32[4]) -> (%c, %e) attrs(NoInline=1) {{
    %b, %y = call @thrice(%a, %x) : f32[4], f32[4]
    %c, %z = call @thrice(%b, %y) : f32[4], f32[4]
    %e = call @index(%z) : f32[4]
  }}
  func @counted(%x: f32[n, 4]) -> (%k, %s) attrs(NoInline=1) {{
    %w = constant(value=f32[4] [0.0, 1.0, 2.0, 1.0]) : f32[4]
    %k = call @any(%x, %w) : i64[]
    () = bind(%k, dim="u")
    %s = call @places() : i64[]
  }}
  func @step(%a: f32[4], %x: f32[4]) -> (%b, %e) {{
    %b, %e = call @row(%a, %x) : f32[4], f32[4]
  }}
  func @main(%x: f32[n, 4], %a: f32[4]) -> (%last, %all, %k, %s, %l, %t) {{
    %k, %s = call @counted(%x) : i64[], i64[]
    %last, %all = scan(%a, %x, body="step", index="i", length=n, scanned=1, states=1)
      : f32[4], f32[n, 4]
    %l, %t = call @counted(%all) : i64[], i64[]
  }}
}}
"""

# Values change places in the buffers of whoever calls.
STAYS_SWAP = (
    SWAP.replace("(%u, %v, %w, %k) {", "(%u, %v, %w, %k) attrs(NoInline=1) {")
    .replace("@main", "@swap")
    .rstrip("}\n")
    + """}
  func @main(%x: f32[4], %y: f32[4]) -> (%u, %v, %w, %k) {
    %a, %b, %c, %d = call @swap(%x, %y) : f32[4], f32[4], f32[4], f32[4]
    %u, %v, %w, %k = call @swap(%a, %b) : f32[4], f32[4], f32[4], f32[4]
  }
}
"""
)

TEXTS: Mapping[str, str] = {
    "branch": BRANCH,
    "swap": SWAP,
    "scan": SCAN,
    "nested": NESTED,
    "grows": GROWS,
    "stays": STAYS,
    "stays_swap": STAYS_SWAP,
}


def module(name: str) -> Module:
    """Return one of them, verified."""
    m = parse_module(TEXTS[name])
    graph.verify(m)
    return m
