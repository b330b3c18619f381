// SPDX-License-Identifier: Apache-2.0
#include <pto/abi/host.h>

#include <cstdio>

extern "C" int32_t twice_plus_one(const pto_args*);

int main() {
  float x[128], y[128];
  for (int i = 0; i < 128; ++i) x[i] = float(i);
  pto_tensor tensors[2] = {};
  tensors[0].data = x;
  tensors[1].data = y;
  pto_args args = {};
  args.abi_version = PTO_ABI_VERSION;
  args.tensors = tensors;
  args.n_tensors = 2;
  if (pto_launch(twice_plus_one, &args, 1) != 0) return 1;
  std::printf("%g %g\n", y[0], y[127]);
}
