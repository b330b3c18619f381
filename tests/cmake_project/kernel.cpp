// SPDX-License-Identifier: Apache-2.0
// A kernel on tiles: y = 2 x + 1 for 8 x 16 numbers.
#include <pto/pto-inst.hpp>

extern "C" int32_t twice_plus_one(const pto_args* args) {
  using Tile = pto::Tile<pto::TileType::Vec, float, 8, 16>;
  const auto* from = static_cast<const float*>(args->tensors[0].data);
  auto* to = static_cast<float*>(args->tensors[1].data);
  Tile x, y;
  for (int i = 0; i < 128; ++i) x.SetValue(i, from[i]);
  pto::TMULS(y, x, 2.0f);
  pto::TADDS(y, y, 1.0f);
  for (int i = 0; i < 128; ++i) to[i] = y.GetValue(i);
  return 0;
}
