// SPDX-License-Identifier: Apache-2.0
// Matmul patches: gathers the pixels under the filters of a convolution into panels of b, from
// images where they lie, so that patches are never in memory as a matrix.
//
//     pack_right_patches<float>(job, panel, part);    // job.b_patches says where pixels lie
//
// Pixels under one element of a filter, for places along a row of results, are a run in a row of an
// image. A vector of a panel joins the runs of its places; they are found once for each element of
// a filter and hold for all channels.
//
// Invariant: only pixels of the images are read. Beyond the places of the part a panel holds zeros.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"
#include "pto/isa/cpu/shuffle.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

template <class T>
class PatchPacker {
  using V = Vec<Compute<T>, kVectorBytes / int(sizeof(Compute<T>))>;
  static constexpr int kLanes = kCount<V>;
  using Bits = Vec<typename WordOf<sizeof(LaneOf<V>)>::Unsigned, kLanes>;
  using Unit = LaneOf<Bits>;
  using Range = lanes::LaneRange<Vec<Raw<T>, kLanes>>;

 public:
  explicit PatchPacker(const pto_matmul_job& job)
      : patches_(*job.b_patches),
        images_(static_cast<const T*>(job.b.data)),
        taps_(patches_.filter_h * patches_.filter_w) {}

  void pack(char* panel, const Part& part) {
    for (int j = 0; part.units > 0 && j < part.lines; j += part.width, panel += part.next)
      for (int v = 0; v < part.width; v += kLanes) {
        const int count = smaller(part.lines - j - v, kLanes);
        find_rows(patches_.first + part.line + j + v, count);
        pack_vector(reinterpret_cast<Unit*>(panel) + v, part);
      }
  }

 private:
  // Places in one row of results: its lanes, and the pixel under the filter's first element, for
  // lane 0.
  struct PixelRow {
    int first, last;
    int64_t image, y, x;
  };
  // Lanes that hold pixels, and where the pixel of lane 0 would lie in its channel. Pixels that lie
  // two apart come from two vectors.
  struct Run {
    int64_t y, offset;
    Range low, high;
    int first, last;
  };
  struct Runs {
    const Run* first;
    int count;
  };

  void find_rows(int64_t place, int count) {
    n_rows_ = 0;
    if (count <= 0) return;
    int64_t row = place / patches_.out_w, column = place % patches_.out_w;
    int64_t image = row / patches_.out_h;
    row %= patches_.out_h;
    for (int lane = 0; lane < count; column = 0) {
      const int64_t left = patches_.out_w - column;
      const int last = left < count - lane ? lane + int(left) : count;
      rows_[n_rows_++] = {lane, last, image * patches_.image_stride,
                          row * patches_.stride_h - patches_.padding_h,
                          (column - lane) * patches_.stride_w - patches_.padding_w};
      lane = last;
      if (++row == patches_.out_h) row = 0, ++image;
    }
  }

  void pack_vector(Unit* panel, const Part& part) {
    switch (patches_.stride_w) {
      case 1:
        return pack_taps<1>(panel, part);
      case 2:
        return pack_taps<2>(panel, part);
      default:
        return pack_taps<0>(panel, part);
    }
  }

  // Step: the distance of pixels; 0: any.
  template <int Step>
  void pack_taps(Unit* panel, const Part& part) {
    const int64_t channel = part.k / taps_, skipped = part.k % taps_;
    const T* const images = images_ + channel * patches_.channel_stride;
    for (int64_t j = 0; j < patches_.filter_w; ++j) {
      find_runs<Step>(j * patches_.dilation_w);
      for (int64_t i = 0; i < patches_.filter_h; ++i) {
        int64_t k = i * patches_.filter_w + j - skipped;  // of the part
        const T* from = images;
        if (k < 0) k += taps_, from += patches_.channel_stride;
        if (k >= part.units) continue;
        const Runs runs = runs_inside(i * patches_.dilation_h);
        from += i * patches_.dilation_h * patches_.width;
        copy<Step>(runs, panel + k * part.width, from, part.units - k, taps_ * part.width);
      }
    }
  }

  // Finds the runs of the first row of the filter, in the column that lies so far to the right.
  template <int Step>
  PTO_INLINE void find_runs(int64_t right) {
    n_runs_ = 0;
    for (int i = 0; i < n_rows_; ++i) {
      const PixelRow& row = rows_[i];
      const int64_t x = row.x + right, step = Step ? Step : patches_.stride_w;
      int first = row.first, last = row.last;
      while (first < last && x + first * step < 0) ++first;
      while (first < last && x + (last - 1) * step >= patches_.width) --last;
      if (first == last) continue;
      Run& run = runs_[n_runs_++];
      run.y = row.y, run.offset = row.image + row.y * patches_.width + x;
      if (n_runs_ == 1 || row.y < highest_) highest_ = row.y;
      if (n_runs_ == 1 || row.y > lowest_) lowest_ = row.y;
      if constexpr (Step == 1) {
        run.low = Range{first, last};
      } else if constexpr (Step == 2) {
        run.low = Range{smaller(2 * first, kLanes), smaller(2 * last - 1, kLanes)};
        run.high = Range{above(2 * first - kLanes), above(2 * last - 1 - kLanes)};
      } else {
        run.first = first, run.last = last;
      }
    }
  }
  // Returns the runs that lie inside the images in a row that lies so far down.
  PTO_INLINE Runs runs_inside(int64_t down) {
    const bool are = highest_ + down >= 0 && lowest_ + down < patches_.height;
    if (are || n_runs_ == 0) return {runs_, n_runs_};
    int count = 0;
    for (int i = 0; i < n_runs_; ++i)
      if (runs_[i].y + down >= 0 && runs_[i].y + down < patches_.height)
        inside_[count++] = runs_[i];
    return {inside_, count};
  }
  static PTO_INLINE int above(int n) { return n > 0 ? n : 0; }

  // Writes a vector to each `taps_`-th of some units, `next` apart.
  template <int Step>
  PTO_INLINE void copy(Runs runs, Unit* to, const T* from, int64_t units, int64_t next) const {
    const int64_t channel = patches_.channel_stride;
    if (runs.count == 1) {
      const Run run = runs.first[0];
      for (; units > 0; units -= taps_, to += next, from += channel)
        store(to, load<Step>(from, run));
      return;
    }
    for (; units > 0; units -= taps_, to += next, from += channel) {
      Bits all = {};
      for (int i = 0; i < runs.count; ++i) all |= load<Step>(from, runs.first[i]);
      store(to, all);
    }
  }
  static PTO_INLINE void store(Unit* to, Bits bits) {
    *reinterpret_cast<typename VecOf<Unit, kLanes>::loose*>(to) = bits;
  }

  template <int Step>
  PTO_INLINE Bits load(const T* channel, const Run& run) const {
    const T* const from = channel + run.offset;
    if constexpr (Step == 1) {
      return bit_cast<Bits>(lanes::load_range<kLanes>(from, run.low));
    } else if constexpr (Step == 2) {
      const V low = lanes::load_range<kLanes>(from, run.low);
      const V high = lanes::load_range<kLanes>(from + kLanes, run.high);
      return bit_cast<Bits>(lanes::unzip_even(low, high));
    } else {
      T lane[kLanes] = {};
      for (int i = run.first; i < run.last; ++i) lane[i] = from[i * patches_.stride_w];
      return bit_cast<Bits>(lanes::load<kLanes>(lane));
    }
  }

  const pto_matmul_patches& patches_;
  const T* const images_;
  const int64_t taps_;
  int n_rows_ = 0, n_runs_ = 0;
  int64_t highest_ = 0, lowest_ = 0;  // y of the runs
  PixelRow rows_[kLanes];
  Run runs_[kLanes], inside_[kLanes];
};

template <class T>
void pack_right_patches(const pto_matmul_job& job, void* panel, const Part& part) {
  PatchPacker<T>(job).pack(static_cast<char*>(panel), part);
}
inline Pack pack_right_patches_of(int type) {
  switch (type) {
    case PTO_MATMUL_F16:
      return pack_right_patches<half>;
    case PTO_MATMUL_BF16:
      return pack_right_patches<bfloat16_t>;
    case PTO_MATMUL_F64:
      return pack_right_patches<double>;
    default:
      return pack_right_patches<float>;
  }
}

}  // namespace matmul
PTO_NAMESPACE_END
