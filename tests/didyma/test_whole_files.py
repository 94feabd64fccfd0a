"""Files as projects have them, with code of the host, tell the launch of their kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from didyma.commands.sanitize import Request, sanitize

pytestmark = pytest.mark.usefixtures("ptx")

IMAGE = """
#define W 70
#define H 50
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
__global__ void shade(const float* in, float* out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < W && y < H) out[y * W + x] = in[y * W + x];
}
int main() {
  float *in, *out;
  cudaMalloc(&in, W * H * sizeof(float));
  cudaMalloc(&out, W * H * sizeof(float));
  dim3 block(16, 8), grid(CEIL_DIV(W, 16), (H + block.y - 1) / block.y);
  LAUNCH
}
"""
LAUNCHES = {
    "brackets": "shade<<<grid, block>>>(in, out);",
    "call": "void* args[] = {&in, &out}; cudaLaunchKernel((void*)shade, grid, block, args, 0, 0);",
}
TEMPLATE = """
#include <thrust/device_vector.h>
#include <torch/extension.h>
namespace project {
namespace {
template <typename scalar_t> __global__ __launch_bounds__(64)
void tile(const scalar_t* x, scalar_t* y) {
  __shared__ scalar_t s[8][8];
  s[threadIdx.y][threadIdx.x] = x[threadIdx.y * 8 + threadIdx.x];
  __syncthreads();
  y[threadIdx.y * 8 + threadIdx.x] = s[threadIdx.x][threadIdx.y];
}
}
void run(const torch::Tensor& x, torch::Tensor& y) {
  dim3 threads(8, 8);
  AT_DISPATCH_FLOATING_TYPES(x.type(), "tile", ([&] {
    tile<scalar_t><<<x.size(0), threads>>>(x.data<scalar_t>(), y.data<scalar_t>());
  }));
}
}
"""


def found(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[str, list[int], list[int], set[str]]:
    """Return the name, the blocks, the threads of the launch, and the kinds of what is found."""
    file = tmp_path / "k.cu"
    file.write_text(text, encoding="utf-8")
    sanitize(Request(file, "", "", "", (), None, (), (), 1, 1, 20.0), json=True)
    record = json.loads(capsys.readouterr().out)
    return (
        record["kernel"], record["grid"], record["block"],
        {f["kind"] for f in record["findings"]},
    )  # fmt: skip


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_grid_of_the_components_of_a_block_is_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = IMAGE.replace("LAUNCH", LAUNCHES[name])
    shape = [5, 7, 1], [16, 8, 1]
    assert found(text, tmp_path, capsys) == ("shade", *shape, set())
    faulty = text.replace("y < H", "y <= H")
    assert found(faulty, tmp_path, capsys) == ("shade", *shape, {"out-of-bounds"})


def test_a_template_of_a_namespace_has_a_type_that_a_caller_would_choose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, block, kinds = found(TEMPLATE, tmp_path, capsys)
    assert (name, block, kinds) == ("tile<float>", [8, 8, 1], set())
    faulty = TEMPLATE.replace("__syncthreads();", "")
    assert found(faulty, tmp_path, capsys)[3] == {"race"}


SAMPLE = """
enum { SIDE = 32 };
template <int B> __global__ void twice(const float* x, float* y, int width) {
  __shared__ float s[B][B];
  int at = (blockIdx.y * B + threadIdx.y) * width + blockIdx.x * B + threadIdx.x;
  s[threadIdx.y][threadIdx.x] = x[at];
  __syncthreads();
  y[at] = 2 * s[threadIdx.y][B - 1 - threadIdx.x];
}
int main() {
  float *x, *y;
  int block_size = 16;
  dim3 size(2 * block_size, SIDE), threads(block_size, block_size);
  dim3 grid(size.x / threads.x, size.y / threads.y);
  cudaMalloc(&x, SIDE * SIDE * sizeof(*x));
  cudaMalloc(&y, SIDE * SIDE * sizeof(y[0]));
  if (block_size == 16) {
    twice<16><<<grid, threads>>>(x, y, size.x);
  } else {
    twice<32><<<grid, threads>>>(x, y, size.x);
  }
}
"""


def test_an_instance_that_the_host_does_not_reach_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = [2, 2, 1], [16, 16, 1]
    assert found(SAMPLE, tmp_path, capsys) == ("twice<16>", *shape, set())
    faulty = SAMPLE.replace("= x[at]", "= x[at + 1]")
    assert found(faulty, tmp_path, capsys) == ("twice<16>", *shape, {"out-of-bounds"})
