// SPDX-License-Identifier: Apache-2.0
// Progressions: positions that follow each other in equal steps. What they name lies in equal steps
// too, and is copied as one tensor: a flip, a roll, a border of reflections.
//
//     progressions_of(positions, 5, 2);   // 2, 1, 0, 1, 2: {{0, 3, 2, -1}, {3, 2, 1, 1}}
//
// Thread safety: pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pto {

struct Progression {
  int64_t first, count;  // of the positions
  int64_t start, step;   // start, start + step, start + 2 * step, ...
};

// Cuts positions, which do not wrap, into at most `most` progressions; none: they are more.
inline std::vector<Progression> progressions_of(const int64_t* positions, int64_t count,
                                                size_t most) {
  std::vector<Progression> found;
  for (int64_t i = 0; i < count;) {
    if (found.size() == most) return {};
    Progression next{i, 1, positions[i], 0};
    if (++i < count) next.step = positions[i] - next.start;
    for (; i < count && positions[i] - positions[i - 1] == next.step; ++i) ++next.count;
    found.push_back(next);
  }
  return found;
}

}  // namespace pto
