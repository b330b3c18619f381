// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/weights.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "pto/abi/host.h"
#include "pto/base/dtype.hpp"

namespace pto {
namespace {

constexpr int64_t kFewElements = 1024;  // a copy of fewer gains nothing
constexpr int kSightsWanted = 2, kSightsMost = 1 << 20, kSweepCalls = 4096;

std::atomic<WeightCheck>& check() {
  static std::atomic<WeightCheck> check = [] {
    const char* const named = std::getenv("PTO_WEIGHTS");
    const std::string_view name = named ? named : "";
    return name == "compared" ? WeightCheck::Compared
           : name == "never"  ? WeightCheck::Never
                              : WeightCheck::Sampled;
  }();
  return check;
}

thread_local std::optional<WeightCheck> of_thread;

int64_t most_bytes() {
  static const int64_t bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4;
  return bytes;
}

std::atomic<int64_t> all_bytes{0};

using Axes = PackedWeight::Axes;

struct Key {
  const void* data;
  uint64_t way;
  int precision;
  Axes sizes, strides;
  friend bool operator==(const Key&, const Key&) = default;
};
struct Hash {
  size_t operator()(const Key& key) const {
    auto mixed = reinterpret_cast<uintptr_t>(key.data) ^ key.way;
    mixed = mixed * 4 + static_cast<uint64_t>(key.precision);
    for (const Axes* axes : {&key.sizes, &key.strides})
      for (const int64_t number : *axes)
        mixed = (mixed ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15u;
    return mixed ^ mixed >> 32;
  }
};

Axes axes_of(const pto_tensor_ref& weight, const int64_t* numbers, int64_t in_front) {
  Axes axes;
  const int ahead = PackedWeight::kMostAxes - weight.rank;
  for (int i = 0; i < PackedWeight::kMostAxes; ++i)
    axes[static_cast<size_t>(i)] = i < ahead ? in_front : numbers[i - ahead];
  return axes;
}
Axes sizes_of(const pto_tensor_ref& weight) { return axes_of(weight, weight.sizes, 1); }
Axes strides_of(const pto_tensor_ref& weight) { return axes_of(weight, weight.strides, 0); }

uint32_t element(const void* data, int64_t place, int bytes) {
  uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(data) + place * bytes, static_cast<size_t>(bytes));
  return bits;
}

bool is_packable(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::I8 ||
         dtype == DType::U8;
}

}  // namespace

void set_weight_check(WeightCheck wanted) { check().store(wanted); }
WeightCheck weight_check() {
  return of_thread ? *of_thread : check().load(std::memory_order_relaxed);
}
std::optional<WeightCheck> exchange_thread_weight_check(std::optional<WeightCheck> wanted) {
  return std::exchange(of_thread, wanted);
}

// Samples lie four beside each other, so that a check reads 16 cache lines.
PackedWeight::PackedWeight(const pto_tensor_ref& weight, const pto_weight_owner& owner, int wanted)
    : data_(weight.data),
      sizes_(sizes_of(weight)),
      strides_(strides_of(weight)),
      dtype_(dtype_of(weight)),
      owner_(owner),
      wanted_(wanted) {
  constexpr int kBeside = 4, kGroups = kSamples / kBeside;
  for (int i = 0; i < kSamples; ++i) {
    const int group = i / kBeside;
    const int64_t row = (rows() - 1) * group / (kGroups - 1);
    const int64_t last = std::max<int64_t>(cols() - kBeside, 0);
    const int64_t col = last * (group * 7 % kGroups) / (kGroups - 1) + i % kBeside;
    places_[i] = place_of(row, std::min(col, cols() - 1));
    samples_[i] = element(data_, places_[i], bytes(dtype_));
  }
  if (weight_check() == WeightCheck::Compared) {
    copy_.reserve(static_cast<size_t>(rows() * cols()));
    for_elements([this](uint32_t bits) {
      copy_.push_back(bits);
      return true;
    });
  }
  owner_.hold(owner_.object);
}

PackedWeight::~PackedWeight() {
  owner_.release(owner_.object);
  pto_free(memory_);
  all_bytes -= bytes_;
}

// Finds an element; rows are counted over all axes but the last.
int64_t PackedWeight::place_of(int64_t row, int64_t col) const {
  int64_t place = col * strides_[kMostAxes - 1];
  for (size_t axis = kMostAxes - 1; axis-- > 0; row /= sizes_[axis])
    place += row % sizes_[axis] * strides_[axis];
  return place;
}

// Calls f with each element until it returns false; returns whether it never did.
template <class F>
bool PackedWeight::for_elements(F f) const {
  for (int64_t i = 0; i < rows(); ++i) {
    const int64_t first = place_of(i, 0);
    for (int64_t j = 0; j < cols(); ++j) {
      if (!f(element(data_, first + j * strides_[kMostAxes - 1], bytes(dtype_)))) return false;
    }
  }
  return true;
}

pto_tensor_ref PackedWeight::tensor() const {
  static constexpr int64_t kDense = 1;
  return {memory_, &floats_, &kDense, 1, static_cast<int32_t>(DType::F32)};
}

bool PackedWeight::is_of(const pto_tensor_ref& weight) const {
  return data_ == weight.data && dtype_ == dtype_of(weight) && sizes_ == sizes_of(weight) &&
         strides_ == strides_of(weight);
}

bool PackedWeight::is_unchanged(const pto_tensor_ref& weight, const pto_weight_owner& owner) const {
  if (!is_of(weight) || owner.object != owner_.object) return false;
  if (weight_check() == WeightCheck::Trusted) return true;
  if (owner.version != owner_.version) return false;
  const int size = bytes(dtype_);
  uint32_t differs = 0;
  for (int i = 0; i < kSamples; ++i) differs |= element(data_, places_[i], size) ^ samples_[i];
  if (differs != 0) return false;
  if (weight_check() != WeightCheck::Compared) return true;
  if (copy_.empty()) return false;
  const uint32_t* next = copy_.data();
  return for_elements([&next](uint32_t bits) { return bits == *next++; });
}

void* PackedWeight::take(int64_t bytes) {
  if (all_bytes.load() + bytes > most_bytes()) return nullptr;
  memory_ = pto_malloc(static_cast<size_t>(bytes));
  if (!memory_) return nullptr;
  floats_ = bytes / static_cast<int64_t>(sizeof(float));
  bytes_ = bytes + static_cast<int64_t>(copy_.size() * sizeof(uint32_t));
  all_bytes += bytes_;
  return memory_;
}

namespace {

// An operator that packs, and what runs it.
struct PackingOperator {
  const pto_operator& packer;
  int32_t (*run)(const pto_operator_call*);
  int precision;  // of the process

  static bool pack(const void* self, const pto_tensor_ref& weight, PackedWeight* to) {
    const auto& [packer, run, precision] = *static_cast<const PackingOperator*>(self);
    const pto_operator_call call = {&packer,   &weight, nullptr, nullptr,
                                    &allocate, to,      nullptr, nullptr};
    return run(&call) == 0 && pto_matmul_precision() == precision;
  }
  static void* allocate(void* user, int32_t, int32_t, const int64_t* sizes, int32_t, int32_t) {
    return static_cast<PackedWeight*>(user)->take(sizes[0] * static_cast<int64_t>(sizeof(float)));
  }
};

}  // namespace

// All weights that were seen.
class PackedWeights {
 public:
  using Entry = std::shared_ptr<PackedWeight>;

  static PackedWeights& all() {
    static auto* const all = new PackedWeights;  // used by threads that outlive main
    return *all;
  }

  std::shared_ptr<const PackedWeight> find(const WeightPacker& packer, const pto_tensor_ref& weight,
                                           const pto_weight_owner& owner) {
    const Key key = {weight.data, packer.way, packer.precision, sizes_of(weight),
                     strides_of(weight)};
    const Entry known = at(key);
    const bool is_known = known && known->is_unchanged(weight, owner);
    if (!packer.packs) return is_known && known->memory_ ? known : nullptr;
    if (!is_known) {
      const int wanted = known ? std::min(2 * known->wanted_, kSightsMost) : kSightsWanted;
      put(key, known, std::make_shared<PackedWeight>(weight, owner, wanted));
      return nullptr;
    }
    if (known->memory_) return known;
    // One thread alone makes the copy; the others take the weight itself meanwhile.
    if (known->sights_.fetch_add(1) + 1 != known->wanted_) return nullptr;
    drop_dead();  // their memory first: models come and go
    const auto made = std::make_shared<PackedWeight>(weight, owner, known->wanted_);
    if (!packer.pack(packer.self, weight, made.get()) || !made->is_unchanged(weight, owner))
      return nullptr;
    put(key, known, made);
    return made;
  }

  int64_t forget(const void* memory, int64_t bytes) {
    const auto first = reinterpret_cast<uintptr_t>(memory);
    return drop([&](const PackedWeight& one) {
      const uintptr_t at = reinterpret_cast<uintptr_t>(one.data_);
      return at >= first && at - first < static_cast<uint64_t>(bytes);
    });
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  void drop_dead() {
    drop([](const PackedWeight& one) { return one.owner_.is_alive(one.owner_.object) == 0; });
  }

 private:
  Entry at(const Key& key) {
    std::unique_lock lock(mutex_);
    const auto found = entries_.find(key);
    Entry entry = found == entries_.end() ? nullptr : found->second;
    if (++calls_ % kSweepCalls == 0 || (!entry && entries_.size() >= sweep_at_)) {
      lock.unlock();
      drop_dead();
      lock.lock();
      sweep_at_ = 2 * entries_.size() + kSweepCalls / 64;
    }
    return entry;
  }

  // Replaces an entry unless another thread has.
  void put(const Key& key, const Entry& known, Entry made) {
    const std::lock_guard lock(mutex_);
    Entry& place = entries_[key];
    if (place == known) place.swap(made);
  }

  // Removes entries; they die when the lock is free.
  template <class F>
  int64_t drop(F is_old) {
    std::vector<Entry> old;
    const std::lock_guard lock(mutex_);
    for (auto at = entries_.begin(); at != entries_.end();) {
      if (is_old(*at->second)) {
        old.push_back(std::move(at->second));
        at = entries_.erase(at);
      } else {
        ++at;
      }
    }
    return static_cast<int64_t>(old.size());
  }

  std::mutex mutex_;
  std::unordered_map<Key, Entry, Hash> entries_;
  size_t calls_ = 0, sweep_at_ = kSweepCalls / 64;
};

// A child of fork() keeps the copies, which cost it no memory.
[[maybe_unused]] const int kWeightsForkHandler =
    pthread_atfork([] { PackedWeights::all().lock(); }, [] { PackedWeights::all().unlock(); },
                   [] { PackedWeights::all().unlock(); });

std::shared_ptr<const PackedWeight> packed_weight(const WeightPacker& packer,
                                                  const pto_tensor_ref& weight,
                                                  const pto_weight_owner& owner) {
  const WeightCheck how = weight_check();
  if (how == WeightCheck::Never || !is_packable(dtype_of(weight)) || weight.rank < 2 ||
      weight.rank > PackedWeight::kMostAxes ||
      (owner.version == PTO_WEIGHT_UNCOUNTED && how != WeightCheck::Compared &&
       how != WeightCheck::Trusted))
    return nullptr;
  int64_t elements = 1;
  for (int axis = 0; axis < weight.rank; ++axis) elements *= weight.sizes[axis];
  if (elements < kFewElements) return nullptr;
  return PackedWeights::all().find(packer, weight, owner);
}

// Weights so small are worth a larger copy for any number of rows: reading it takes less than half
// the time of splitting floats where the second cache holds it.
constexpr int64_t kSmallElements = 1 << 20;

std::shared_ptr<const PackedWeight> packed_weight(const pto_operator& op,
                                                  const pto_tensor_ref& weight,
                                                  const pto_weight_owner& owner, int64_t rows,
                                                  int32_t (*run)(const pto_operator_call*)) {
  if (weight.rank != 2) return nullptr;
  const PackingOperator packing = {*pto_operator_at(op.packer), run, pto_matmul_precision()};
  const auto way = static_cast<uint64_t>(op.packer);
  const bool packs = dtype_of(weight) != DType::F32 || rows >= pto_matmul_packed_rows() ||
                     weight.sizes[0] * weight.sizes[1] <= kSmallElements;
  return packed_weight({way, packing.precision, &packing, &PackingOperator::pack, packs}, weight,
                       owner);
}

int64_t forget_weights(const void* memory, int64_t bytes) {
  return PackedWeights::all().forget(memory, bytes);
}

void count_packed_weight(int64_t bytes) { all_bytes += bytes; }

int64_t packed_weight_bytes() {
  PackedWeights::all().drop_dead();
  return all_bytes.load();
}

}  // namespace pto
