"""Run a kernel of plain CUDA C as the C that it is: a compiler of C, and threads in a loop.

CUDA's words become C by macros, and nothing of ``codegen`` reads the text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from didyma.codegen.runtime.tinycc import TinyCC
from didyma.fuzz.foreign.texts import Case
from didyma.refimpl.ir.types import Array

NUMPY: Mapping[str, type] = MappingProxyType({
    "int": np.int32, "unsigned": np.uint32, "float": np.float32, "double": np.float64,
    "long long": np.int64, "signed char": np.int8, "unsigned short": np.uint16,
    "unsigned char": np.uint8, "short": np.int16,
})  # fmt: skip
_FUNCTIONS = ("sqrt", "fabs", "floor", "ceil", "trunc", "rint", "exp", "log", "sin", "cos", "tanh",
              "exp2", "log2", "log1p", "expm1", "erf", "atan", "sinh", "cosh", "log10", "asin",
              "acos", "tan")  # fmt: skip
_HEAD = """
typedef struct { unsigned x, y, z; } dim3_;
static dim3_ threadIdx, blockIdx, blockDim, gridDim;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint, uint32_t;
typedef long long int64_t;
#define __global__
#define __device__
#define __forceinline__
#define __noinline__
#define __launch_bounds__(n)
#define __restrict__
#define bool _Bool
#define true 1
#define false 0
#define __shared__ static
#define __syncthreads()
#define __ldg(p) (*(p))
#define __fdividef(a, b) ((a) / (b))
#define isnan(a) ((a) != (a))
#define isinf(a) ((a) - (a) != (a) - (a) && (a) == (a))
#define INFINITY (1.0f / 0.0f)
#define FLT_MAX 3.402823466e+38f
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define abs(a) ((a) < 0 ? -(a) : (a))
#define atomicAdd(p, v) (*(p) += (v))
#define atomicMax(p, v) (*(p) = max(*(p), (v)))
#define atomicMin(p, v) (*(p) = min(*(p), (v)))
static float fmaxf(float a, float b) {
  return a != a ? b : b != b ? a : a > b ? a : a < b ? b : 1 / a < 0 ? b : a;
}
static float fminf(float a, float b) {
  return a != a ? b : b != b ? a : a < b ? a : a > b ? b : 1 / a < 0 ? a : b;
}
extern float copysignf(float, float);
"""
_RUN = """
void run_all(void **p, int n, unsigned blocks, unsigned threads) {
  gridDim.x = blocks; blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
      kernel(CALL);
}
"""


def run(case: Case, arrays: Sequence[Array], compiler: TinyCC) -> None:
    """Run a kernel on arrays, in the order of its parameters, which it changes."""
    declared = "".join(f"extern float {f}f(float);\n" for f in _FUNCTIONS)
    given = [f"p[{k}]" for k in range(len(case.params))]
    given.insert(case.at, "n")
    text = case.text.replace('extern "C"', "").replace("#include", "// #include")
    source = f"{_HEAD}{declared}{text}{_RUN.replace('CALL', ', '.join(given))}"
    made = compiler.compile(source, "the kernel as C", ["run_all"])
    try:
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_uint)(
            made.addresses["run_all"]
        )
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        call(pointers, case.count, case.blocks, case.threads)
    finally:
        made.close()
