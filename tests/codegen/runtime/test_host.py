"""What the engine ``host`` checks of kernels, and what it does with its own memory."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path

import numpy as np
import pytest

from didyma.codegen.options import GraphOptions, Options
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.host import Host, HostBuffer, Order
from didyma.codegen.runtime.registry import engine
from didyma.composites.builder import Builder
from didyma.fuzz.conform import Runner
from didyma.fuzz.levels import check
from didyma.oracle.conformance import conform, structure
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.types import Array, DType, TensorType
from tests.codegen.runtime.texts import kernel


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def run(host: Host, text: KernelText, x: Array | None = None, **dims: int) -> Array:
    given = np.arange(8, dtype=np.float32) if x is None else x
    a, y = host.upload(given), host.upload(np.zeros_like(given))
    host.load(text).launch("k", [a, y], dims)
    out = host.download(y, DType.of(given), given.shape)
    host.free(a)
    host.free(y)
    return out


def fault(host: Host, text: KernelText) -> tuple[str, str, int, str]:
    with pytest.raises(KernelFault) as e:
        run(host, text)
    f = e.value.faults[0]
    return f.kind, f.detail, f.line, f.node


def test_a_write_past_a_buffer_names_the_buffer(host: Host) -> None:
    kind, detail, _, _ = fault(host, kernel("  y[threadIdx.x + 1] = 1.0f;"))
    assert (kind, detail) == ("guard", "buffer y: byte 0 past its 32 bytes was written")


def test_a_write_before_a_buffer_names_the_buffer(host: Host) -> None:
    kind, detail, _, _ = fault(host, kernel("  y[(i64)threadIdx.x - 2] = 1.0f;"))
    assert kind == "guard"
    assert detail.startswith("buffer y: byte ")
    assert detail.endswith("before its start was written")


def test_a_guard_broken_between_launches_is_found_at_free(host: Host) -> None:
    buffer = host.allocate(12)
    np.frombuffer(memoryview_past(buffer, 1), np.uint8)[:] = 0
    with pytest.raises(KernelFault, match="when a buffer was freed: byte 0 past its 12 bytes"):
        host.free(buffer)


def memoryview_past(buffer: HostBuffer, nbytes: int) -> memoryview:
    import ctypes

    past = (ctypes.c_uint8 * nbytes).from_address(buffer.address + buffer.nbytes)
    return memoryview(past)


def test_a_view_shares_bytes_and_guards(host: Host) -> None:
    whole = host.upload(np.arange(16, dtype=np.float32))
    part = host.view(whole, 32, 32)
    loaded = host.load(kernel("  y[threadIdx.x] = x[threadIdx.x] + 1.0f;"))
    loaded.launch("k", [whole, part], {})
    want = [*range(8), *range(1, 9)]
    assert host.download(whole, DType.F32, (16,)).tolist() == want
    with pytest.raises(KernelFault, match="buffer y: byte 0 past its 64 bytes"):
        host.load(kernel("  y[threadIdx.x + 1] = 0.0f;")).launch("k", [whole, part], {})


@pytest.mark.parametrize("order", ["forward", "reverse", 5])
def test_a_thread_that_ends_while_others_wait(order: Order) -> None:
    body = "  if (threadIdx.x < 3) {\n    __syncthreads();\n  }\n  y[threadIdx.x] = 0.0f;"
    kind, detail, line, node = fault(Host(order=order), kernel(body))
    assert (kind, line, node) == ("barrier-divergence", 4, "free line_4")
    assert "waits in block (0, 0, 0)" in detail
    assert "has ended" in detail


def test_threads_at_different_barriers(host: Host) -> None:
    body = "  if (threadIdx.x < 3) {\n    __syncthreads();\n  } else {\n    __syncthreads();\n  }"
    kind, detail, line, _ = fault(host, kernel(body))
    assert (kind, line) == ("barrier-divergence", 6)
    assert "thread 0 at line 4" in detail


def test_a_write_beside_a_shared_array_names_it(host: Host) -> None:
    body = (
        "  __shared__ f32 a[8];\n  __shared__ f32 b[6];\n"
        "  a[threadIdx.x] = 0.0f;\n  b[threadIdx.x] = 0.0f;"
    )
    kind, detail, _, _ = fault(host, kernel(body))
    assert (kind, detail) == ("out-of-bounds", "bytes beside b were written in block (0, 0, 0)")


def test_a_misaligned_wide_load(host: Host) -> None:
    kind, detail, line, _ = fault(host, kernel("  f32x4 v = load4_f32(&x[1]);\n  y[0] = v.x;"))
    assert (kind, line) == ("misaligned", 3)
    assert "thread 0" in detail


def test_shared_memory_is_poison_in_every_block(host: Host) -> None:
    body = "  __shared__ f32 s[8];\n  y[threadIdx.x] = s[threadIdx.x];\n  s[threadIdx.x] = 1.0f;"
    assert np.isnan(run(host, kernel(body, blocks=3))).all()


def test_a_missing_barrier_shows_in_another_order() -> None:
    body = (
        "  __shared__ f32 s[8];\n  s[threadIdx.x] = x[threadIdx.x];\n"
        "  y[threadIdx.x] = s[7 - (i64)threadIdx.x];"
    )
    mended = body.replace("];\n  y", "];\n  __syncthreads();\n  y")
    wrong, right = ([run(Host(order=o), kernel(b)) for o in ("forward", "reverse")]
                    for b in (body, mended))  # fmt: skip
    assert not np.array_equal(wrong[0], wrong[1], equal_nan=True)
    assert np.array_equal(right[0], right[1])
    assert right[0].tolist() == list(range(7, -1, -1))


def test_blocks_that_race_show_in_another_order() -> None:
    text = kernel("  y[0] = (f32)(i64)blockIdx.x;", threads=1, blocks=10)
    last = [float(run(Host(order=o), text)[0]) for o in ("forward", "reverse", 3)]
    assert last[:2] == [9, 0]
    assert 0 <= last[2] <= 9


def test_every_block_runs_once_in_a_shuffled_grid() -> None:
    text = kernel("  y[blockIdx.x] = y[blockIdx.x] + 1.0f;", threads=1, blocks="n", dims=("n",))
    for seed in range(20):
        for n in (1, 2, 7, 8):
            assert run(Host(order=seed), text, n=n).tolist() == [1] * n + [0] * (8 - n)


def test_text_that_is_not_c_is_an_error_with_its_line(host: Host) -> None:
    with pytest.raises(DidymaError, match=r"(?s)kernel-text.*kernel text:4: error"):
        host.load(kernel("  y[0] = 0.0f;\n  y[0] = nothing;"))


def test_an_unknown_kernel_and_unfit_buffers(host: Host) -> None:
    loaded = host.load(kernel("  y[0] = 0.0f;"))
    small, whole = host.allocate(31), host.allocate(32)
    with pytest.raises(DidymaError, match="unknown-kernel"):
        loaded.launch("q", [whole, whole], {})
    with pytest.raises(DidymaError, match="buffer-count"):
        loaded.launch("k", [whole], {})
    with pytest.raises(DidymaError, match=r"(?s)buffer-too-small at `k, buffer y`.*31 bytes"):
        loaded.launch("k", [whole, small], {})


def test_fresh_memory_is_poison_and_aligned(host: Host) -> None:
    for n in (0, 1, 255, 4096):
        buffer = host.allocate(n)
        assert buffer.address % 256 == 0
        assert host.download(buffer, DType.U8, (n,)).tolist() == [255] * n
        host.free(buffer)


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_upload_and_download_round_trip(host: Host, dtype: DType, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, dtype.numpy)
    assert np.array_equal(host.download(host.upload(x), dtype, shape), x)


def test_upload_takes_any_layout(host: Host) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)[::2, ::-1].T
    assert np.array_equal(host.download(host.upload(x), DType.I32, x.shape), x)


def test_copy(host: Host) -> None:
    target, source = host.upload(np.zeros(4, np.int8)), host.upload(np.ones(3, np.int8))
    host.copy(target, source)
    assert host.download(target, DType.I8, (4,)).tolist() == [1, 1, 1, 0]


def test_code_is_given_back(host: Host) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc to read the process's memory from")
    text = kernel("  __syncthreads();\n  y[threadIdx.x] = exp_f32(x[threadIdx.x]);")
    for _ in range(100):
        host.load(text)
    gc.collect()
    before = resident()
    for _ in range(2000):
        host.load(text)
    gc.collect()
    assert resident() - before < 256  # pages: half a kilobyte a load would show


@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_other_compilers(command: str, tmp_path: Path) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"no {command} here")
    whole = [c for c in structure.cases() if "f32" in c.name or "scan" in c.name]
    for _ in range(2):  # the second time from the cache
        run = Runner(Host(command, cache=tmp_path))
        assert not [o for o in conform(whole, run) if o.wrong]
    with pytest.raises(DidymaError, match="kernel-text"):
        Host(command, cache=tmp_path).load(kernel("  y[0] = nothing;"))


def test_a_compiler_that_is_not_there() -> None:
    with pytest.raises(EngineMissing, match="no no-such-compiler on PATH"):
        Host("no-such-compiler")


def test_a_power_of_zero_is_one_of_every_nan() -> None:
    """A libm may give NaN for one that signals, which bits seen as floats can be."""
    b = Builder()
    x = b.param("x", TensorType(DType.U16, (3,)))
    zero = b("cast", [b.scalar(0.0, DType.F32)], dtype=DType.BF16)
    y = b("pow", [b("bitcast", [x], dtype=DType.BF16), zero])
    m = b.module("main", [b("cast", [y], dtype=DType.F32)])
    bits = np.array([0x7FBA, 0x7FC0, 0xFF81], np.uint16)
    report = check(m, [bits], [engine("host")], Options())
    assert report.agree, report.findings


@pytest.mark.parametrize("x", [1 - 2.0**-53, 3.0, 0.0, -0.0, np.inf, np.nan])
def test_constants_are_rounded_once(x: float) -> None:
    """TinyCC works them out in 80 bits: then 1 / (1 - 2**-53) becomes 1 + 2**-53, and 1."""
    b = Builder()
    m = b.module("main", [b("reciprocal", [b.constant(np.array(x))])])
    report = check(m, [], [engine("host")], Options(graph=GraphOptions(simplify=False)))
    assert report.agree, report.findings
