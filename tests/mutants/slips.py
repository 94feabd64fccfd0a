"""Slips of the kind that people make in a compiler, by the part of ``codegen`` that has them.

They were written while reading ``codegen``, without a look at what campaigns draw; a campaign of a
minute on one core should find nine in ten.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.mutants import device_slips, row_slips, wrapper_slips
from tests.mutants.faults import Fault


def _slip(name: str, file: str, old: str, new: str, *levels: str, engine: str = "host") -> Fault:
    return Fault(name, f"codegen/{file}", old, new, levels, engine)


_PASSES = (
    _slip(
        "permutations composed in the wrong order", "passes/movement.py",
        'new = attrs({"axes": tuple(first[a] for a in second)})',
        'new = attrs({"axes": tuple(second[a] for a in first)})', "passes",
    ),
    _slip(
        "flips composed by their union", "passes/movement.py",
        "sorted(set(first) ^ set(second))", "sorted(set(first) | set(second))", "passes",
    ),
    _slip(
        "a float thought to fit another by its digits alone", "passes/movement.py",
        "return _FLOATS[source][0] <= mantissa and _FLOATS[source][1] <= exponent",
        "return _FLOATS[source][0] <= mantissa", "passes",
    ),
    _slip(
        "operands of calls and branches sorted", "passes/simplify.py",
        "if op is not None and op.laws.commutative", "if op is None or op.laws.commutative",
        "passes",
    ),
    _slip(
        "a signed integer thought to fit any wider unsigned one", "passes/movement.py",
        "target.bits - target.is_signed and source.is_signed <= target.is_signed",
        "target.bits - target.is_signed", "passes",
    ),
    _slip(
        "a cast to bool thought lossless", "passes/movement.py",
        "if target == DType.BOOL or (source.is_float and not target.is_float):",
        "if source.is_float and not target.is_float:", "passes",
    ),
    _slip(
        "a saturating cast of integers through a float dropped", "passes/movement.py",
        "return None  # a cast from float saturates; one from int would wrap",
        "pass", "passes",
    ),
    _slip(
        "digits of a float one too many", "passes/movement.py",
        "source.bits - source.is_signed <= mantissa",
        "source.bits - source.is_signed <= mantissa + 8", "passes",
    ),
    _slip(
        "operands of every binary op sorted", "passes/simplify.py",
        "op is not None and op.laws.commutative", "op is not None and len(n.args) == 2", "passes",
    ),
    _slip(
        "flags left out of the key of equal nodes", "passes/simplify.py",
        "tuple((name, _bits(a)) for name, a in n.attrs)",
        "tuple((name, _bits(a)) for name, a in n.attrs if not isinstance(a, bool))", "passes",
    ),
    _slip(
        "constants compared by value", "passes/simplify.py",
        "return a.dtype, a.shape, a.data",
        "return a.dtype, a.shape, str(abs(a.array().astype(float)).tolist())", "passes",
    ),
    _slip(
        "a neutral element taken at either side", "passes/algebra.py",
        "if dtype in v.dtypes\n        for at in v.operands",
        "if dtype in v.dtypes\n        for at in (0, 1)", "passes",
    ),
    _slip(
        "0 instead of -0 neutral in sums of floats", "passes/algebra.py",
        "np.array(value).astype", "np.array(abs(value)).astype", "passes",
    ),
    _slip(
        "the magnitude of a negated unsigned number", "passes/algebra.py",
        "if inner and n.types[0].dtype.is_signed else None", "if inner else None", "passes",
    ),
    _slip(
        "a constant taken for a splat by its ends", "passes/values.py",
        "return first if first * (len(value.data) // size) == value.data else None",
        "return first", "passes",
    ),
    _slip(
        "a folded op with its operands swapped", "passes/folding.py",
        ".eval([c.array() for c in known], t)",
        ".eval([c.array() for c in (known[::-1] if len(known) == 2 else known)], t)", "passes",
    ),
    _slip(
        "totals of blocks that include their own", "passes/running.py",
        "before = self.along(totals, axis, exclusive=True, dtype=dtype.compute)",
        "before = self.along(totals, axis, exclusive, dtype=dtype.compute)", "passes",
    ),
    _slip(
        "a long axis padded in front", "passes/running.py",
        'return self.b("pad", (x, fill), low=low, high=high, mode="constant")',
        'return self.b("pad", (x, fill), low=high, high=low, mode="constant")', "passes",
    ),
    _slip(
        "totals of blocks from the front whatever the direction", "passes/running.py",
        "axis=axis, exclusive=exclusive, reverse=self.reverse",
        "axis=axis, exclusive=exclusive, reverse=False", "passes",
    ),
    _slip(
        "a scatter inlined like a fold", "passes/fuse.py",
        'if len(roots) > 1 or self.nodes[i].op == "scatter":', "if len(roots) > 1:",
        "loop", "fuse", "lower",
    ),
    _slip(
        "a path between merged kernels seen one way", "passes/merge.py",
        "return self._through(one, {j}) or self._through({j}, one)",
        "return self._through({j}, one)",
        "fuse", "passes",
    ),
    _slip(
        "the other branch of a constant condition", "passes/branches.py",
        'otherwise if known == b"\\x00" else then', 'then if known == b"\\x00" else otherwise',
        "passes",
    ),
    _slip(
        "rows of half a byte thought whole", "passes/stacks.py",
        "t.dtype.is_packed or bits % 8 == 0", "t.dtype.is_packed or bits % 4 == 0",
        "loop", "kernel", "program", "lower", "host",
    ),
    _slip(
        "a size that nothing needs is not checked", "passes/dead.py",
        "if live.isdisjoint(n.results) and not control.checks(n, checking):",
        "if live.isdisjoint(n.results):", "passes", "simplify", "fuse",
    ),
)  # fmt: skip

_EMISSION = (
    _slip(
        "u16 not narrowed after a bit operation", "emit/expressions.py",
        "_SMALL = (DType.I8, DType.I16, DType.U8, DType.U16)",
        "_SMALL = (DType.I8, DType.I16, DType.U8)", "host",
    ),
    _slip(
        "C's division of negative indices", "emit/arithmetic.py",
        "if a.lo < 0 or b.lo <= 0:", "if a.lo < 0 and b.lo <= 0:", "host",
    ),
    _slip(
        "the interval of a difference from like ends", "emit/arithmetic.py",
        "return a.lo - b.hi, a.hi - b.lo", "return a.lo - b.lo, a.hi - b.hi", "host",
    ),
    _slip(
        "no parentheses around a right operand", "emit/expressions.py",
        "{a.at(level)} {sign} {b.at(level + 1)}", "{a.at(level)} {sign} {b.at(level)}", "host",
    ),
    _slip(
        "a load made before its guard", "emit/wide.py",
        'parts = parts[:1]  # C may skip the second', "pass", "simt", engine="simt",
    ),
    _slip(
        "a negative literal added where it is subtracted", "emit/arithmetic.py",
        'op, b = ("sub" if op == "add" else "add"), index_literal(-b.value)',
        'op, b = "sub", index_literal(-b.value)', "host",
    ),
    _slip(
        "constants folded in double precision", "emit/expressions.py",
        "np.asarray(k.value, k.dtype.compute.numpy)", "np.asarray(k.value, float)", "host",
    ),
    _slip(
        "a float printed with six digits", "emit/terms.py",
        'size, text = float(single), str(single) + "f"',
        'size, text = float(single), f"{single:e}f"', "host",
    ),
    _slip(
        "a shift by the width or more taken modulo the width", "emit/prelude/common.c",
        "FN T shl_T(T a, T b) { return (U)b < BITS ? (T)((U)a << b) : (T)0; }",
        "FN T shl_T(T a, T b) { return (T)((U)a << ((U)b % BITS)); }", "host",
    ),
    _slip(
        "NaN cast to an integer as the least one", "emit/prelude/common.c",
        "  if (x != x) return 0;\n  if (x >= HI@)", "  if (x >= HI@)", "host",
    ),
    _slip(
        "a float below one cast to bool through an integer", "emit/prelude/common.c",
        "#define cast_F_b8(x) ((b8)((x) != 0))", "#define cast_F_b8(x) ((b8)((i64)(x) != 0))",
        "host",
    ),
    _slip(
        "a remainder with the sign of the dividend", "emit/prelude/common.c",
        "return r != 0 && (r ^ b) < 0 ? (T)(r + b) : r;", "return r;", "host",
    ),
    _slip(
        "the smaller zero of two", "emit/prelude/common.c",
        "if (a == b) return signbit_T(a) ? a : b;", "if (a == b) return a;", "host",
    ),
    _slip(
        "u64 to float without the sticky bit", "emit/prelude/common.c",
        "(x >> 1 | (x & 1)) * 2", "(x >> 1) * 2", "host",
    ),
    _slip(
        "a value of a loop's end read anew", "emit/statements.py",
        "if not extent.plain:", "if False:", "host",
    ),
)  # fmt: skip

_LOWERING = (
    _slip(
        "a minimum that starts at the largest finite float", "lower/scalar.py",
        'return sign * float("inf")', "return sign * 3.0e38", "loop",
    ),
    _slip(
        "the last NaN is the best, not the first", "lower/combiners.py",
        'Binary("and", _is_nan(new), Unary("not", _is_nan(old)))', "_is_nan(new)", "loop",
    ),
    _slip(
        "the last of equal elements is the smallest", "lower/combiners.py",
        'Compare("lt" if op == "argmin" else "gt", new, old)',
        'Compare("le" if op == "argmin" else "gt", new, old)', "loop",
    ),
    _slip(
        "a fused sum of updates that starts at 0", "lower/scatter.py",
        'is_sum = op == "add" and value.dtype.is_float', "is_sum = False", "loop",
    ),
    _slip(
        "the constant part of a remainder dropped", "lower/affine.py",
        "rest = plus(rest, constant(c % k))", "rest = plus(rest, constant(0))", "loop", "lower",
    ),
    _slip(
        "an index one beyond an axis thought inside", "lower/affine.py",
        "for k in plus(plus(n, constant(-1)), high, -1).values()",
        "for k in plus(n, high, -1).values()", "loop", "lower",
    ),
    _slip(
        "an element folds no update that meets it", "schedule/segments.py",
        "end: start(ix.add(m.own, ix.ONE))", "end: start(m.own)", "kernel",
    ),
    _slip(
        "a value shared by two guards computed before them", "lower/place.py",
        "self._safe[name] = all(self._is_safe(e) for x in _parts(v) for e in subexprs(x))",
        "self._safe[name] = True", "loop",
    ),
)  # fmt: skip

_SCHEDULES = (
    _slip(
        "a lane reads beyond its column", "schedule/reduction.py",
        "step = guarded(tail(k, length, lanes), step)", "step = guarded([], step)", "kernel",
    ),
    _slip(
        "threads fold a column that is not there", "schedule/reduction.py",
        "guarded(exists, partial),", "partial,", "kernel",
    ),
    _slip(
        "parts of a long sum of the wrong stride", "schedule/serial.py",
        "ix.add(ix.mul(turn, ix.index(size)), u)",
        "ix.add(ix.mul(turn, ix.index(count // size)), u)", "kernel",
    ),
    _slip(
        "parts of a long sum that go on from each other", "schedule/serial.py",
        'Accumulator(part, identity("add", part.dtype))', "Accumulator(part, acc)",
        "kernel", "schedule",
    ),
    _slip(
        "a tile of a product filled beyond its terms", "schedule/matmul.py",
        "here = ix.all_of([*inside, *tail(k, length, tile)])", "here = ix.all_of(inside)",
        "kernel",
    ),
    _slip(
        "tiles of rows and columns exchanged", "schedule/matmul.py",
        "ix.unflatten(block, (*extents[:first], tiles_m, tiles_n))",
        "ix.unflatten(block, (*extents[:first], tiles_n, tiles_m))", "kernel",
    ),
    _slip(
        "lanes thought to divide a symbolic size", "schedule/lanes.py",
        "if any(k % lanes for k in p.values()):",
        "if p.get((), 0) % lanes:", "kernel", "schedule",
    ),
    _slip(
        "a warp of a scan that counts itself among those before it", "schedule/scan.py",
        'earlier = ix.compare("lt", other, warp)', 'earlier = ix.compare("le", other, warp)',
        "kernel",
    ),
    _slip(
        "a block of a chain that counts itself among those before it", "schedule/scan.py",
        "rest = then([carry])", "rest = then([self._joined(carry, value)])", "kernel",
    ),
    _slip(
        "lines of a chain that share what their blocks leave", "schedule/recipes/chain.py",
        "count = _lines(work) * _blocks(work, values)", "count = _blocks(work, values)", "kernel",
        "schedule",
    ),
    _slip(
        "what blocks of a chain come to, thought there from the start", "schedule/recipes/chain.py",
        "Const(0, DType.I32)", "Const(1, DType.I32)", "kernel",
    ),
    _slip(
        "rows of a transposed tile written beyond the result", "schedule/transpose.py",
        "body = guarded(inside, body)", "body = guarded(inside[:1], body)", "kernel",
    ),
    _slip(
        "a grid without its last block", "schedule/pointwise.py",
        "grid = ix.ceildiv(count, ix.index(threads * each))",
        "grid = ix.add(ix.floordiv(ix.sub(count, ix.ONE), ix.index(threads * each * 2)), ix.ONE)",
        "kernel",
    ),
    _slip(
        "elements behind the last whole vector left out", "schedule/pointwise.py",
        "count = ix.add(groups, ix.mod(numel, size))", "count = groups", "kernel",
    ),
    _slip(
        "half of the layers of a column", "schedule/reduction.py",
        "loop = For(turn, ix.ceildiv(length, ix.index(lanes)), step)",
        "loop = For(turn, ix.floordiv(ix.add(length, ix.index(lanes - 2)), ix.index(lanes)), step)",
        "kernel",
    ),
    _slip(
        "a shared fold without its last part", "schedule/split.py",
        "(Axis(part, ix.index(count)),)", "(Axis(part, ix.index(count - 1)),)", "kernel",
    ),
    _slip(
        "parts of a shared fold combined before they are there", "schedule/recipes/split.py",
        "(first, *recipe.kernels(left, usual))", "(*recipe.kernels(left, usual), first)", "kernel",
    ),
    _slip(
        "a part of a shared fold thought whole", "schedule/split.py",
        'ix.compare("le", ix.add(start, each), count)', 'ix.compare("lt", start, count)', "kernel",
    ),
    _slip(
        "blocks of a shared fold that all begin at its first term", "schedule/split.py",
        "let_all({start: ix.mul(self.part, each)}, loop)", "let_all({start: ix.ZERO}, loop)",
        "kernel",
    ),
    _slip(
        "threads of a shared fold that combine without waiting", "schedule/split.py",
        'Block((If(ix.compare("lt", self.lane, half), pair), Barrier()))',
        'Block((If(ix.compare("lt", self.lane, half), pair),))', "kernel",
    ),
)  # fmt: skip

_MEMORY = (
    _slip(
        "a buffer reused at the line that still reads it", "memory/planners.py",
        "while busy and busy[0][0] < b.live.start:", "while busy and busy[0][0] <= b.live.start:",
        "plan", "program",
    ),
    _slip(
        "allocations reused by dtype alone", "memory/planners.py",
        "(b.type.device, b.type.dtype, b.type.nbytes)", "(b.type.device, b.type.dtype)",
        "plan", "program",
    ),
    _slip(
        "a result in place of what the kernel reads twice", "memory/inplace.py",
        "[root.get(a, a) for a in x.args].count(root.get(value, value)) <= 1",
        "True", "plan", "program",
    ),
    _slip(
        "a result in place whatever the kernel reads", "memory/inplace.py",
        "return known.may(params[new], params[old])", "return True", "plan", "program",
    ),
    _slip(
        "kernels told apart by their parameters alone", "memory/inplace.py",
        "self.shares.setdefault(k.name,", 'self.shares.setdefault("",', "plan", "program",
    ),
    _slip(
        "a copy left out whose source is written later", "memory/elide.py",
        "return not any(owner in self.written(x) for x in walk(meanwhile))", "return True",
        "plan", "program",
    ),
    _slip(
        "a part of a concatenation at the place of the one before", "memory/views.py",
        "at = dims.add(at, types[a].nbytes)", "at = types[a].nbytes", "plan", "program",
    ),
)  # fmt: skip

_VARIANTS = (
    _slip(
        "a dispatch that leaves an output unwritten", "select/at_run.py",
        "self.picks[key] = self._pick(site, key[1], trial)",
        "self.picks[key] = self._pick(site, key[1], trial); return", "at-run",
    ),
    _slip(
        "a dispatch that writes but one of its results", "order/blocks.py",
        "outputs = tuple(values[p.name] for p in k.params if p.name in k.outputs)",
        "outputs = tuple(values[p.name] for p in k.params if p.name in k.outputs)[:1]", "plan",
    ),
    _slip(
        "a variant with another argument order", "order/blocks.py",
        "tuple((x.kernel, x.args) for x in launches)",
        "tuple((x.kernel, x.args if x is launches[0] else (*x.args[-2::-1], x.args[-1]))"
        " for x in launches)", "plan", "program",
    ),
    _slip(
        "variants timed on the program's own buffers", "select/at_run.py",
        "return [next((c for b, c in pairs if b is a), a) for a in self.variants[number][1]]",
        "return [a for a in self.variants[number][1] if pairs or True]", "at-run",
    ),
    _slip(
        "a variant picked that gives NaN where the model's choice does not", "select/at_run.py",
        'found.append("" if same else "NaN or infinity elsewhere than the model\'s choice")',
        'found.append("")', "at-run",
    ),
    _slip(
        "a NaN that the demand for finite numbers lets pass", "select/at_run.py",
        "if count := int(np.count_nonzero(_special(a))):",
        "if count := int(np.count_nonzero(_special(a) > 1)):", "at-run",
    ),
    _slip(
        "a cache key without strides", "select/keys.py",
        'rows = [asdict(a) | {"dtype": str(a.dtype)} for a in self.arguments]',
        'rows = [asdict(a) | {"dtype": str(a.dtype), "strides": ()} for a in self.arguments]',
        "at-run",
    ),
)  # fmt: skip

SLIPS: Mapping[str, tuple[Fault, ...]] = {
    "graph passes": _PASSES,
    "emission": _EMISSION,
    "lowering": _LOWERING,
    "schedules": _SCHEDULES,
    "joined rows": row_slips.FAULTS,
    "memory": _MEMORY,
    "wrapper and runtime": wrapper_slips.FAULTS,
    "variants": _VARIANTS,
    "devices": device_slips.FAULTS,
}

FAULTS: tuple[Fault, ...] = tuple(f for many in SLIPS.values() for f in many)
