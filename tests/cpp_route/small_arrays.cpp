// SPDX-License-Identifier: Apache-2.0
// Tiles larger than the arrays that they load and store: the compiler sees the arrays, but not the
// extents that bound the copies, and must not warn.
#include <pto/pto-inst.hpp>

#include <cstdio>

using namespace pto::isa;

namespace {

template <class T>
void twice(T* out, const T* x) {
  Tile<TileType::Vec, T, 16, 256> tile;
  prefetch_lines<4096>(x);
  TLOAD(tile, GlobalTensor(x));
  TADD(tile, tile, tile);
  TSTORE(GlobalTensor(out), tile);
}

template <class T>
bool are_twice(const T* out, const T* x, int count) {
  for (int i = 0; i < count; ++i)
    if (!(out[i] == x[i] + x[i])) return false;
  return true;
}

template <class T>
bool check() {
  T x[13], out[13];
  for (int i = 0; i < 13; ++i) x[i] = T(i);
  pto_register_range(x, sizeof(x));
  pto_register_range(out, sizeof(out));
  twice(out, x);
  pto_unregister_range(x);
  pto_unregister_range(out);
  return are_twice(out, x, 13);
}

}  // namespace

int main() {
  const bool right = check<float>() && check<double>() && check<int32_t>();
  std::puts(right ? "every sum is right" : "a sum is wrong");
  return right ? 0 : 1;
}
