// SPDX-License-Identifier: Apache-2.0
// Matmul stretches: where the rows of b lie, or its columns: at one distance, or in pages, some
// behind each other in each.
//
//     Stretches b(job);
//     if (b.are_apart(2048, 512)) {                        // rows of 512 bytes, 2048 apart
//       const Stretches::Stretch here = b.from(2048, 5);   // the sixth row
//     }
//
// Thread safety: an object belongs to one thread.
#pragma once
#include "pto/isa/cpu/matmul_kernel.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

class Stretches {
 public:
  explicit Stretches(const pto_matmul_job& job) : data_(static_cast<const char*>(job.b.data)) {
    if (!job.b_pages || job.b_pages->runs.count <= 0) return;
    pages_ = &job.b_pages->runs, first_ = data_ - static_cast<char*>(job.b_pages->copy);
  }

  // False: they follow each other closely, or pages do not hold whole ones. Distances in bytes.
  bool are_apart(int64_t distance, int64_t bytes) {
    if (!pages_) return distance >= 2 * bytes;
    if (distance <= 0 || first_ < 0 || first_ >= distance || pages_->bytes % distance != 0)
      return false;
    const int64_t count = pages_->bytes / distance;
    per_page_ = count < kMost ? int(count) : kMost;
    return true;
  }

  // A row, or column, and how many lie behind each other from it on.
  struct Stretch {
    const char* at;
    int count;
  };
  Stretch from(int64_t distance, int number) const {
    if (!pages_) return {data_ + number * distance, kMost};
    const int place = number % per_page_;
    return {pto_run_at(pages_, number / per_page_) + first_ + place * distance, per_page_ - place};
  }
  bool has_pages() const { return pages_ != nullptr; }
  int per_page() const { return per_page_; }

 private:
  static constexpr int kMost = 1 << 30;

  const char* const data_;
  const pto_runs* pages_ = nullptr;
  int64_t first_ = 0;  // bytes of a page in front of b
  int per_page_ = kMost;
};

}  // namespace matmul
PTO_NAMESPACE_END
