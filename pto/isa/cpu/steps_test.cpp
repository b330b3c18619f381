// SPDX-License-Identifier: Apache-2.0
// Elements that lie some steps apart: each arrives, and nothing around them is read.
#include "pto/isa/cpu/steps.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "pto/isa/instructions.hpp"

namespace pto::steps_test {
using namespace isa;

// Words that begin and end where the memory of the process does: in one page, or at its two edges.
class Page {
 public:
  static constexpr int64_t kBytes = 4096;

  Page() : memory_(mmap(nullptr, 3 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    mprotect(begin(), kBytes, PROT_READ | PROT_WRITE);
    for (int64_t i = 0; i < kBytes; ++i) begin()[i] = static_cast<char>(i * 7 + i / 256);
  }
  ~Page() { munmap(memory_, 3 * kBytes); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  char* begin() const { return static_cast<char*>(memory_) + kBytes; }

 private:
  void* memory_;
};

const Page& page() {
  static const Page only;
  return only;
}

// The places from which `count` elements may begin: at the first byte of the page, and such that
// the last one ends with it.
template <class T>
std::vector<const T*> places(int64_t step, int64_t count) {
  const int64_t reach = (count - 1) * step, all = Page::kBytes / int64_t{sizeof(T)};
  const T* const first = reinterpret_cast<const T*>(page().begin());
  return step > 0 ? std::vector{first, first + all - 1 - reach}
                  : std::vector{first + all - 1, first - reach};
}

template <class T>
void check_copies(int64_t step, int64_t count) {
  for (const T* const from : places<T>(step, count)) {
    std::vector<T> to(static_cast<size_t>(count) + 1, T(99));
    lanes::gather_steps(to.data(), from, step, count, count);
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(to[static_cast<size_t>(i)], from[i * step])
          << step << " x " << i << " of " << count;
    ASSERT_EQ(to.back(), T(99)) << "written beyond " << count << " by " << step;
  }
}

template <class T>
void check_loads(int64_t step, int count) {
  using OneRow = Shape<1, 1, 1, 1, DYNAMIC>;
  using Apart = isa::Stride<1, 1, 1, 1, DYNAMIC>;
  for (const T* const from : places<T>(step, count)) {
    MicroTile<T, 2 * kLanes<T>> t;
    TLOAD(t, GlobalTensor<T, OneRow, Apart>(const_cast<T*>(from), OneRow(count), Apart(step)));
    for (int i = 0; i < t.Numel; ++i)
      ASSERT_EQ(t.GetValue(i), i < count ? from[i * step] : T(0)) << step << " x " << i;
  }
}

template <class T>
void check_rows(int64_t rows, int64_t count) {
  const int64_t stride = count + 3;
  for (const T* const from : places<T>(1, (rows - 1) * stride + count)) {
    std::vector<T> to(static_cast<size_t>(rows * count) + 1, T(99));
    lanes::join_rows(to.data(), from, stride, rows, count);
    for (int64_t i = 0; i < rows * count; ++i)
      ASSERT_EQ(to[static_cast<size_t>(i)], from[i % rows * stride + i / rows])
          << i << " of " << rows << " x " << count;
    ASSERT_EQ(to.back(), T(99)) << "written beyond " << rows << " x " << count;
  }
}

template <class T>
void check_type() {
  for (const int64_t rows : {1, 2, 3, 4, 5})
    for (const int64_t count : {0, 1, 7, 8, 16, 17, 32, 65}) check_rows<T>(rows, count);
  for (const int64_t step : {-2, -1, 1, 2, 3, 4, 5}) {
    for (int count = 1; count <= 2 * kLanes<T>; ++count) check_loads<T>(step, count);
    for (const int64_t count : {1, 2, 7, 15, 16, 17, 31, 64, 65, 99}) check_copies<T>(step, count);
  }
}

TEST(Steps, elements_apart_arrive_and_nothing_around_them_is_read) {
  check_type<int32_t>();
  check_type<int64_t>();
  check_type<int16_t>();
  check_type<uint8_t>();
}

}  // namespace pto::steps_test
