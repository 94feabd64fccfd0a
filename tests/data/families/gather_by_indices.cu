// RUN: --grid ${cdiv(N,B)} --block $B --arg table={rows=$D[$N],at=i32[$N],n=i32:$N} --arg y=out:$D[$N]
// OVER: T=float,int,double B=32,64,128,160 N=100,257
struct Table { const $T *rows; const int *at; int n; };
__global__ void k(Table table, $T *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  $T local[4];
  for (int j = 0; j < @[4@|uninitialised:3@|out-of-bounds:6@]; ++j) local[j] = table.rows[@[j@|out-of-bounds:j * $N@]];
  if (i < table.n) y[i] = local[(i + table.at[i]) % 4] + table.rows[table.at[@[i@|out-of-bounds:i * 2@]]];
}
