"""Asynchronous copies: what they move on each engine, and what ``simt`` says of wrong ones."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.emit.intrinsics import COPIES, c_type
from didyma.codegen.runtime.engine import Fault, KernelFault
from didyma.codegen.runtime.nvrtc import Nvrtc
from didyma.codegen.runtime.registry import engine, probe
from didyma.codegen.runtime.simt.access import Traffic
from didyma.codegen.runtime.simt.engine import Simt
from didyma.refimpl.ir.types import Array, DType
from tests.codegen.runtime.texts import kernel
from tests.errors.test_codes import says

# Eight threads bring 64 numbers to the other end of the array, in four tiles of 16; tile t + 1 is
# on its way while tile t is read.  A thread brings two numbers and reads what others brought.
TILES = """\
  __shared__ __align__(16) f32 s[32];
  const i64 i = threadIdx.x;
  cp_async8_f32(&s[i * 2], &x[i * 2]);
  cp_async_commit();
  for (i64 t = 0; t < 4; ++t) {
    if (t < 3) {
      cp_async8_f32(&s[(t + 1) % 2 * 16 + i * 2], &x[(t + 1) * 16 + i * 2]);
    }
    cp_async_commit();
    cp_async_wait(1);
    __syncthreads();
    y[63 - t * 16 - i] = s[t % 2 * 16 + i];
    y[55 - t * 16 - i] = s[t % 2 * 16 + 8 + i];
    __syncthreads();
  }"""
X = np.arange(64, dtype=np.float32)


def run(body: str, on: str | Simt = "simt", size: int = 64, dtype: DType = DType.F32) -> Array:
    """Run a kernel of eight threads on 0, 1, … and a result of zeros; return the result."""
    e = engine(on)
    x = np.arange(size).astype(dtype.numpy)
    buffers = [e.upload(x), e.upload(np.zeros_like(x))]
    e.load(kernel(body, size=size, dtype=dtype)).launch("k", buffers, {})
    return np.asarray(e.download(buffers[1], dtype, (size,)))


def faults(body: str, on: str = "simt", size: int = 64) -> list[Fault]:
    with pytest.raises(KernelFault) as caught:
        run(body, on, size)
    return list(caught.value.faults)


@pytest.mark.parametrize("on", ["simt", "host", "host-fast"])
def test_tiles_arrive_while_others_are_read(on: str) -> None:
    if not probe(on).runs:
        pytest.skip(probe(on).why)
    assert np.array_equal(run(TILES, on), X[::-1])


@pytest.mark.parametrize("on", ["simt", "host"])
@pytest.mark.parametrize("nbytes", COPIES)
@pytest.mark.parametrize("dtype", [DType.I8, DType.BF16, DType.F32, DType.F64], ids=str)
def test_each_width_of_each_dtype_copies_its_bytes(on: str, nbytes: int, dtype: DType) -> None:
    if dtype.nbytes > nbytes:
        return
    t, many = c_type(dtype), nbytes // dtype.nbytes
    body = f"""\
  __shared__ __align__(16) {t} s[{8 * many}];
  const i64 i = threadIdx.x;
  cp_async{nbytes}_{t}(&s[i * {many}], &x[(7 - i) * {many}]);
  cp_async_commit();
  cp_async_wait(0);
  for (i64 k = 0; k < {many}; ++k) {{
    y[i * {many} + k] = s[i * {many} + k];
  }}
  cp_async{nbytes}_zfill_{t}(&s[i * {many}], &x[i * {many}], i % {many + 1});
  cp_async_commit();
  cp_async_wait(0);
  for (i64 k = 0; k < {many}; ++k) {{
    y[8 * {many} + i * {many} + k] = s[i * {many} + k];
  }}"""
    got = run(body, on, 16 * many, dtype)
    x = np.arange(8 * many).astype(dtype.numpy).reshape(8, many)
    kept = np.arange(many) < (np.arange(8) % (many + 1))[:, None]
    want = np.concatenate([x[::-1], np.where(kept, x, np.zeros_like(x))]).reshape(-1)
    assert got.tobytes() == want.tobytes()


def test_what_is_not_read_may_lie_anywhere() -> None:
    body = """\
  __shared__ __align__(16) f32 s[32];
  const i64 i = threadIdx.x;
  cp_async16_zfill_f32(&s[i * 4], &x[i * 4], i * 4 < 6 ? (i * 4 < 4 ? 4 : 2) : 0);
  cp_async_commit();
  cp_async_wait(0);
  if (i < 2) y[i] = s[i * 4 + 1];
  if (i == 7) y[2] = s[28];"""
    assert run(body, size=6).tolist() == [1, 5, 0, 0, 0, 0]


def test_bytes_are_counted_where_they_are_read() -> None:
    traffic = Traffic()
    run(TILES, Simt(traffic=traffic))
    assert traffic.read["k", "x"] == 256
    assert traffic.accesses["k", "x"] == 32


def changed(old: str, new: str, body: str = TILES) -> str:
    assert body.count(old) == 1, old
    return body.replace(old, new)


# Where the kernel is wrong, what simt calls it, the line of the body, and words of the finding.
PLANTED = {
    "no wait": (changed("    cp_async_wait(1);\n", ""), "unwaited", 13,
                "s[0] is read before a wait for cp_async8_f32 of line 5, which writes it"),
    "a wait for too few": (changed("wait(1)", "wait(2)"), "unwaited", 14, "cp_async8_f32 of line"),
    "no group": (changed("    cp_async_commit();\n", ""), "unwaited", 13, "cp_async8_f32 of line"),
    "no group of the first": (changed("2]);\n  cp_async_commit();\n  for", "2]);\n  for"),
                              "unwaited", 13, "cp_async8_f32 of line 5"),
    "no barrier after the wait": (
        changed("(1);\n    __syncthreads();\n", "(1);\n"), "race", 13,
        "is read while another thread writes it"),
    "a barrier before the wait alone": (
        changed("    cp_async_wait(1);\n    __syncthreads();\n",
                "    __syncthreads();\n    cp_async_wait(1);\n"), "race", 14,
        "is read while another thread writes it"),
    "a refill before the readers are done": (
        changed("8 + i];\n    __syncthreads();\n", "8 + i];\n"), "race", 9,
        "is written while another thread reads it, by cp_async8_f32"),
    "a refill of what is on its way": (
        changed("s[(t + 1) % 2 * 16", "s[t % 2 * 16"), "unwaited", 9,
        "is written before a wait for cp_async8_f32 of line 5, which writes it, by cp_async8_f32"),
    "a store over what is on its way": (
        changed("    cp_async_wait(1);\n", "    s[t % 2 * 16 + i * 2] = 0.0f;\n"
                "    cp_async_wait(1);\n"), "unwaited", 12,
        "is written before a wait for cp_async8_f32 of line"),
    "an address off its width": (changed("&s[i * 2]", "&s[i * 2 + 1]"), "misaligned", 5,
                                 "shared s[1], of alignment 16, is at no multiple of 8 bytes"),
    "a source off its width": (changed("&x[i * 2]", "&x[i * 2 + 1]"), "misaligned", 5,
                               "global x[1]"),
    "memory off its width": (changed("__align__(16) ", ""), "misaligned", 5,
                             "shared s[0], of alignment 4,"),
    "past the end": (changed("&x[i * 2]", "&x[i * 2 + 50]"), "out-of-bounds", 5,
                     "global x[64] of 64 elements, by cp_async8_f32"),
    "to global memory": (changed("&s[i * 2]", "&y[i * 2]"), "misaligned", 5,
                         "global y is where an address in shared memory has to be"),
    "from shared memory": (changed("&x[i * 2]", "&s[i * 2]"), "misaligned", 5,
                           "shared s is where an address in global memory has to be"),
    "from what nobody wrote": (changed("&x[i * 2]", "&y[i * 2]"), "uninitialised", 5,
                               "global y[0] is read, by cp_async8_f32"),
    "more than all": (changed("cp_async8_f32(&s[i * 2], &x[i * 2])",
                              "cp_async8_zfill_f32(&s[i * 2], &x[i * 2], 3)"), "out-of-bounds", 5,
                      "3 of 2 elements, by cp_async8_zfill_f32"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_at_its_line(name: str) -> None:
    body, kind, line, words = PLANTED[name]
    e = Simt()
    y = e.allocate(256) if kind == "uninitialised" else e.upload(np.zeros_like(X))
    with pytest.raises(KernelFault) as caught:
        e.load(kernel(body, size=64)).launch("k", [e.upload(X), y], {})
    found = {(f.kind, f.line): f.detail for f in caught.value.faults}
    assert (kind, line) in found, found
    assert words in found[kind, line]


@pytest.mark.parametrize(
    ("words", "line"), [("= 0.0f", 6), ("= y[i * 2] + 1.0f", 6)], ids=["a store", "an update"]
)
def test_what_a_copy_still_reads_stays(words: str, line: int) -> None:
    """A thread overwrites the source of its own copy, which only a wait makes right."""
    body = f"""\
  __shared__ __align__(16) f32 s[16];
  const i64 i = threadIdx.x;
  cp_async8_f32(&s[i * 2], &y[i * 2]);
  y[i * 2] {words};
  cp_async_commit();
  cp_async_wait(0);"""
    (f,) = faults(body, size=16)
    assert (f.kind, f.line) == ("unwaited", line)
    assert "global y[0] is written before a wait for cp_async8_f32 of line 5, which reads it" in (
        f.detail
    )
    late = body.replace(f"  y[i * 2] {words};\n", "") + f"\n  y[i * 2] {words};"
    run(late, size=16)


def test_a_wait_orders_the_reads_of_a_copy_for_its_own_thread_alone() -> None:
    body = """\
  __shared__ __align__(16) f32 s[16];
  const i64 i = threadIdx.x;
  cp_async8_f32(&s[i * 2], &y[i * 2]);
  cp_async_commit();
  cp_async_wait(0);
  y[14 - i * 2] = 1.0f;"""
    (f,) = faults(body, size=16)
    assert (f.kind, f.line) == ("race", 8)
    run(body.replace("(0);\n", "(0);\n  __syncthreads();\n"), size=16)


def test_each_thread_waits_for_its_own_groups() -> None:
    body = """\
  __shared__ __align__(16) f32 s[16];
  const i64 i = threadIdx.x;
  cp_async8_f32(&s[i * 2], &x[i * 2]);
  cp_async_commit();
  if (i < 4) {
    cp_async_wait(0);
  }
  __syncthreads();
  y[i] = s[i];"""
    assert np.array_equal(run(body, size=16)[:8], X[:8])
    (f,) = faults(body.replace("s[i];", "s[i + 1];"), size=16)
    assert (f.kind, f.line) == ("unwaited", 11)
    assert f.detail.endswith("(1 threads)")


@pytest.mark.parametrize(("add", "kind"), [("+ 1", "misaligned"), ("", "assert")])
def test_the_host_checks_addresses_and_counts(add: str, kind: str) -> None:
    body = f"""\
  __shared__ __align__(16) f32 s[40];
  const i64 i = threadIdx.x;
  cp_async16_zfill_f32(&s[i * 4 {add}], &x[i * 4], {3 if add else 5});
  y[i] = s[i * 4];"""
    (f,) = faults(body, "host")
    assert (f.kind, f.line) == (kind, 5)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_every_width_compiles_for_gpus(architecture: str) -> None:
    if not probe("nvrtc").runs:
        pytest.skip(probe("nvrtc").why)
    calls = "\n".join(
        f"  cp_async{n}_f32(&s[i * 4], &x[i * 4]);\n  cp_async{n}_zfill_f32(&s[i * 4], &x[i], i);"
        for n in COPIES
    )
    body = (
        "  __shared__ __align__(16) f32 s[64];\n  const i64 i = threadIdx.x;\n"
        f"{calls}\n  cp_async_commit();\n  cp_async_wait(1);\n  y[i] = s[i];"
    )
    ptx = Nvrtc(architecture).load(kernel(body)).cubin.ptx
    for words in ("cg.shared.global", "ca.shared.global", "commit_group", "wait_group 1"):
        assert f"cp.async.{words}" in ptx
    assert [ptx.count(f"], {n}") for n in COPIES] == [2, 2, 2]


# In a program: as a kernel of text, for targets that have the family.

DOUBLED = f"""extern "C" __global__ void doubled(const f32 *x, f32 *y) {{
{
    TILES.replace("y[63 - t * 16 - i] =", "y[t * 16 + i] = 2.0f *").replace(
        "y[55 - t * 16 - i] =", "y[t * 16 + 8 + i] = 2.0f *"
    )
}
}}
"""


def program() -> dd.Program:
    @dd.trace(dd.f32[64])
    def twice(x: dd.Tensor) -> dd.Tensor:
        return x + x

    return twice


def text(source: str = DOUBLED) -> dict[str, dd.TextKernel]:
    return {"fused_add_0": dd.TextKernel(source, ("x",), ("y",), (1, 1, 1), (8, 1, 1))}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_kernel_of_text_is_judged_for_a_target_that_has_it(target: str) -> None:
    options = dd.Options(target=target)
    assert dd.check(program(), kernels=text(), options=options, tries=2).agree
    broken = text(DOUBLED.replace("wait(1)", "wait(3)"))
    report = dd.check(program(), kernels=broken, options=options, engines=["simt"], tries=1)
    assert any("unwaited" in f.message and "cp_async8_f32" in f.message for f in report.findings)


def test_a_target_without_it_refuses_the_text() -> None:
    want = ("cp_async8_f32 on the cpu target", "a target with cp_async: sm_80, sm_90a")
    with says("target-lacks", "line 4", *want):
        dd.compile(program(), kernels=text())


def test_a_wait_is_for_a_literal_number() -> None:
    with says("bad-kernel", "line 11", "cp_async_wait of a literal"):
        source = DOUBLED.replace("wait(1)", "wait(t)")
        dd.compile(program(), kernels=text(source), options=dd.Options(target="sm_80"))
