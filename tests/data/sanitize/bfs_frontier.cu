// RUN: --grid 2 --block 32 --arg rows=i32[65]:0..0 --arg edges=i32[64] --arg cost=i32[64]:0..0 --arg changed=zero:i32[1] --arg n=i32:64
// Graph codes write one value to one place from many threads: worth a note, and no fault.
__global__ void k(const int* rows, const int* edges, int* cost, int* changed, int n) {
  int t = blockIdx.x * 32 + threadIdx.x;
  if (t < n) { for (int e = rows[t]; e < rows[t + 1]; ++e) cost[edges[e]] = 1; *changed = 1; }
}
