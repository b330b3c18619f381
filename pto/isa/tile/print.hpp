// SPDX-License-Identifier: Apache-2.0
// TPRINT: prints a tile or a view of memory as text, on the standard output.
//
//     TPRINT(t);                                     // f32 tile, 2 x 3 valid of 4 x 64:
//                                                    //    0.0000   1.0000   2.0000
//                                                    //    3.0000   4.0000   5.0000
//     TPRINT<PrintFormat::Width10_Precision6>(t);    //    0.000000   1.000000   2.000000 ...
//
// Invariant: prints the valid region, a line for each row; long rows continue on the next line.
// Thread safety: lines of several threads do not mix, tiles may.
#pragma once
#include "pto/isa/elementwise/elementwise.hpp"
#include "pto/isa/tile/global_tensor.hpp"

PTO_NAMESPACE_BEGIN

enum class PrintFormat { Width8_Precision4, Width8_Precision2, Width10_Precision6 };

namespace detail {

PTO_INLINE void print_to_stdout(const char* text, int length) {
  __builtin_printf("%.*s", length, text);
}
// The destination of the text.
inline void (*print_text)(const char* text, int length) = print_to_stdout;

// Collects a line, and writes it at its end or when it gets long.
template <PrintFormat Format>
class PrintedLine {
 public:
  template <class T>
  void add(const T& value) {
    constexpr int kWidth = Format == PrintFormat::Width10_Precision6 ? 10 : 8;
    constexpr int kPrecision = Format == PrintFormat::Width10_Precision6  ? 6
                               : Format == PrintFormat::Width8_Precision2 ? 2
                                                                          : 4;
    if (length_ > kRoom - 64) end();
    char* const to = text_ + length_;
    if constexpr (kSame<T, mask32>)
      length_ += __builtin_snprintf(to, 64, " %*d", kWidth, value ? 1 : 0);
    else if constexpr (__is_class(T))
      length_ += __builtin_snprintf(to, 64, " %*.*f", kWidth, kPrecision, double(float(value)));
    else if constexpr (kIsFloat<T>)
      length_ += written(__builtin_snprintf(to, 64, " %*.*f", kWidth, kPrecision, double(value)));
    else if constexpr (kIsSigned<T>)
      length_ += __builtin_snprintf(to, 64, " %*lld", kWidth, static_cast<long long>(value));
    else
      length_ +=
          __builtin_snprintf(to, 64, " %*llu", kWidth, static_cast<unsigned long long>(value));
  }
  void end() {
    constexpr int kSkipped = Rules::kPrintsAsSimulator ? 1 : 0;  // its lines start without a blank
    const int skipped = length_ < kSkipped ? length_ : kSkipped;
    text_[length_] = '\n';
    print_text(text_ + skipped, length_ + 1 - skipped);
    length_ = 0;
  }

 private:
  static constexpr int kRoom = 2048;
  // The largest numbers need more than 63 characters; they are cut.
  static int written(int n) { return n < 64 ? n : 63; }

  char text_[kRoom];
  int length_ = 0;
};

template <class... A>
void print_format(const char* format, A... values) {
  char text[128];
  print_text(text, __builtin_snprintf(text, sizeof(text), format, values...));
}

template <class T>
void print_type() {
  if constexpr (__is_class(T))
    print_format("%s", T::kElementName);
  else
    print_format("%c%d", kIsFloat<T> ? 'f' : kIsSigned<T> ? 'i' : 'u', int(8 * sizeof(T)));
}

// Not inlined, so that printing does not weigh on the code around it.
template <PrintFormat Format, class S>
__attribute__((noinline)) void print_tile(const S& s) {
  if constexpr (Rules::kPrintsAsSimulator) {
    print_format("TPRINT %dx%d\n", int(s.GetValidRow()), int(s.GetValidCol()));
  } else {
    print_type<typename S::DType>();
    print_format(" tile, %d x %d valid of %d x %d\n", int(s.GetValidRow()), int(s.GetValidCol()),
                 int(S::Rows), int(S::Cols));
  }
  PrintedLine<Format> line;
  for (int r = 0; r < int(s.GetValidRow()); ++r) {
    for (int c = 0; c < int(s.GetValidCol()); ++c) line.add(s.GetElement(r, c));
    line.end();
  }
}

template <PrintFormat Format, class G>
__attribute__((noinline)) void print_view(const G& g) {
  using T = typename G::Element;
  print_type<T>();
  PrintedLine<Format> line;
  if constexpr (G::kIsPacked) {
    constexpr int64_t kMost = 1024;  // where the extent is unknown
    const int64_t count = g.count() < kMost ? g.count() : kMost;
    print_format(" memory, %lld elements\n", static_cast<long long>(count));
    for (int64_t i = 0; i < count; ++i) line.add(T(g.data()[i]));
    line.end();
  } else {
    int64_t n[5], step[5];
    for (int dim = 0; dim < 5; ++dim) n[dim] = g.GetShape(dim), step[dim] = g.GetStride(dim);
    print_format(" memory, %lld x %lld x %lld x %lld x %lld\n", static_cast<long long>(n[0]),
                 static_cast<long long>(n[1]), static_cast<long long>(n[2]),
                 static_cast<long long>(n[3]), static_cast<long long>(n[4]));
    const int64_t rows = n[0] * n[1] * n[2] * n[3];
    for (int64_t r = 0; r < rows; ++r) {
      int64_t rest = r, offset = 0;
      for (int dim = 3; dim >= 0; rest /= n[dim], --dim) offset += rest % n[dim] * step[dim];
      for (int64_t c = 0; c < n[4]; ++c) line.add(T(g.data()[offset + c * step[4]]));
      line.end();
    }
  }
}

}  // namespace detail

template <PrintFormat Format = PrintFormat::Width8_Precision4, class S>
PTO_INLINE void TPRINT(const S& s) {
  if constexpr (kIsTile<S>) {
    PTO_ENTER(TPRINT, "s, [gmTmp]", in(s));
    detail::print_tile<Format>(s);
  } else {
    PTO_ENTER(TPRINT, "g", in(s));
    detail::print_view<Format>(s);
  }
}
// The view is the place where hardware would put a tile that it cannot print from.
template <PrintFormat Format = PrintFormat::Width8_Precision4, class S, class G>
PTO_INLINE void TPRINT(const S& s, const G&) {
  TPRINT<Format>(s);
}

PTO_NAMESPACE_END
