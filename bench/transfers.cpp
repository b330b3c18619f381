// SPDX-License-Identifier: Apache-2.0
// TLOAD and TSTORE of 64 KB between the layouts, beside a memcpy of the same size.
//
//     ./transfers        one JSON line a case, as pto/bench/runner.py writes them
//
// Compares what was loaded and stored before it is timed; a wrong element ends the program
// with 1.
#include <pto/pto-inst.hpp>

#include <cstdlib>
#include <cstring>

#include "samples.hpp"

using namespace bench;
using namespace pto::isa;

namespace {

constexpr int kBytes = 65536;
alignas(64) char from[kBytes], to[kBytes], spare[kBytes];

template <class T>
constexpr int kSide = sizeof(T) == 4 ? 128 : 256;  // columns; 128 rows
template <class T>
using Nd = Tile<TileType::Mat, T, 128, kSide<T>>;
template <class T>
using Dn = Tile<TileType::Mat, T, 128, kSide<T>, BLayout::ColMajor>;
template <class T>
using Nz = TileNz<TileType::Mat, T, 128, kSide<T>>;
template <class T>
using Zn = TileZn<TileType::Mat, T, 128, kSide<T>>;
template <class T>
using View = GlobalTensor<T, Shape<1, 1, 1, 128, kSide<T>>, Stride<1, 1, 1, kSide<T>, 1>>;

template <class T, class D>
void transfer(const char* layout, const char* dtype) {
  static D tile;
  T *source = reinterpret_cast<T*>(from), *target = reinterpret_cast<T*>(to);
  std::memset(to, 0, kBytes);
  auto copy = [] {
    std::memcpy(spare, from, kBytes);
    asm volatile("" ::"r"(spare) : "memory");
  };
  auto load = [&] { TLOAD(tile, View<T>(source)); };
  auto store = [&] { TSTORE(View<T>(target), tile); };
  load();
  store();
  if (std::memcmp(from, to, kBytes) != 0) {
    std::fprintf(stderr, "%s %s: what was stored is not what was loaded\n", layout, dtype);
    std::exit(1);
  }
  const std::string size = "128, " + std::to_string(kSide<T>);
  const std::string loading = std::string("TLOAD ") + layout,
                    storing = std::string("TSTORE ") + layout;
  report({loading.c_str(), dtype, size}, {contender(load), contender(copy)});
  report({storing.c_str(), dtype, size}, {contender(store), contender(copy)});
}

template <class T>
void all_layouts(const char* dtype) {
  transfer<T, Nd<T>>("ND", dtype);
  transfer<T, Nz<T>>("Nz", dtype);
  transfer<T, Zn<T>>("Zn", dtype);
  transfer<T, Dn<T>>("DN", dtype);
}

}  // namespace

int main() {
  for (int i = 0; i < kBytes; ++i) from[i] = char(i * 31 + i / 256), spare[i] = 1;
  all_layouts<float>("f32");
  all_layouts<half>("f16");
  return 0;
}
