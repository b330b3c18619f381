// SPDX-License-Identifier: Apache-2.0
// Program: the vocabulary of compiled programs: memory of values, loops, numbers, calls of kernels.
//
//     Arena arena(args->services, true);
//     const Frame frame{args, arena, true};
//     const int64_t count = region::multiply_sizes(rows, cols);
//     float* const v4 = take<float>(frame, count, "model.py:7");
//     int32_t code = kNoMemory;
//     if (v4) code = run<kPlain>(frame, region_0, tensors, 2, scalars, 3, 0, items, bytes, 0);
//
// A Frame is where a statement runs: on the thread that called the program, where each kernel may
// use all threads, or in an iteration that runs beside others, where kernels run at once.
//
// Programs have hundreds of statements, so that the compiler's time goes with the length of what
// each of them inlines: taking memory, giving it back and calling kernels are functions.
//
// Thread safety: a Frame belongs to one thread.
#pragma once
#include "pto/abi/program.h"
#include "pto/isa/program_runs.hpp"
#include "pto/isa/reduce/region_reductions.hpp"

PTO_NAMESPACE_BEGIN
namespace program {

// --- memory --------------------------------------------------------------------------------------

// Gives memory in the order of a stack. Small pieces come from chunks that grow, large ones from
// the recycling allocator.
class Arena {
 public:
  struct Large {  // in front of a large piece
    Large* before;
    char unused[56];
  };
  struct Mark {
    int chunk;
    int64_t used;
    Large* large;
  };

  // `is_root`: chunks are given back at the end; else they are the block's scratch memory.
  Arena(pto_services* services, bool is_root) : services_(services), is_root_(is_root) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    release({0, 0, nullptr});
    for (int i = 0; is_root_ && i < chunks_; ++i) pto_free(data_[i]);
  }

  Mark mark() const { return {chunk_, used_, large_}; }
  __attribute__((noinline)) void release(Mark to) {
    while (large_ != to.large) {
      Large* const before = large_->before;
      pto_free(large_);
      large_ = before;
    }
    chunk_ = to.chunk;
    used_ = to.used;
  }

  // Returns 64-byte aligned memory, or null where there is none.
  PTO_INLINE void* take(int64_t bytes) {
    const int64_t wanted = (bytes + 63) / 64 * 64 + 64;  // apart from each other, never nothing
    if (__builtin_expect(chunk_ < chunks_ && used_ + wanted <= bytes_of(chunk_), 1)) {
      void* const given = data_[chunk_] + used_;
      used_ += wanted;
      return given;
    }
    return take_elsewhere(wanted);
  }

 private:
  static constexpr int kChunks = 8;
  static constexpr int64_t kLargest = int64_t(1) << 20;
  static int64_t bytes_of(int chunk) { return int64_t(64 << 10) << chunk; }

  __attribute__((noinline)) void* take_elsewhere(int64_t wanted) {
    while (wanted < kLargest) {
      if (chunk_ < chunks_ && used_ + wanted <= bytes_of(chunk_)) return take(wanted - 64);
      const int next = chunk_ < chunks_ ? chunk_ + 1 : chunk_;
      if (next == kChunks) break;
      if (next == chunks_) {
        const auto bytes = size_t(bytes_of(next));
        data_[next] =
            static_cast<char*>(is_root_ ? pto_malloc(bytes) : services_->scratch(services_, bytes));
        if (!data_[next]) return nullptr;
        ++chunks_;
      }
      chunk_ = next;
      used_ = 0;
    }
    auto* const made = static_cast<Large*>(pto_malloc(size_t(wanted) + sizeof(Large)));
    if (!made) return nullptr;
    made->before = large_;
    large_ = made;
    return made + 1;
  }

  pto_services* const services_;
  const bool is_root_;
  int chunks_ = 0, chunk_ = 0;
  int64_t used_ = 0;
  Large* large_ = nullptr;
  char* data_[kChunks];
};

// Gives back what its scope takes.
class Scope {
 public:
  explicit Scope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { arena_.release(mark_); }

 private:
  Arena& arena_;
  const Arena::Mark mark_;
};

struct Frame {
  const pto_args* args;
  Arena& arena;
  bool is_root;
};

// Returns the number of bytes, or a number that no memory has.
PTO_INLINE int64_t bytes_of(int64_t elements, int64_t item) {
  int64_t bytes;
  const bool is_huge = __builtin_mul_overflow(elements, item, &bytes);
  return is_huge || bytes > region::kHugeSize ? region::kHugeSize : bytes < 0 ? 0 : bytes;
}
// Returns null where there is no memory, which it reports; the program returns kNoMemory then.
constexpr int32_t kNoMemory = 1;
template <class T>
__attribute__((noinline)) T* take(const Frame& frame, int64_t elements, const char* where) {
  const int64_t bytes = bytes_of(elements, sizeof(T));
  void* const taken = frame.arena.take(bytes);
  if (__builtin_expect(!taken, 0)) pto_fail_memory(frame.args->services, where, bytes);
  return static_cast<T*>(taken);
}

// --- calls ---------------------------------------------------------------------------------------

PTO_INLINE pto_tensor tensor(const void* data, const int64_t* sizes, const int64_t* strides,
                             int32_t rank, uint8_t code, uint8_t bits) {
  return {const_cast<void*>(data), sizes, strides, rank, code, bits, 1, 0, -1};
}

// Return the first record of a call's packed constants, or null, and record i.
PTO_INLINE const pto_packed_right* packed_right(const pto_args* args) {
  const auto* const first = static_cast<const pto_packed_right*>(args->params);
  const bool has_record = args->params_bytes >= int64_t(sizeof(*first));
  return has_record && first->tag == PTO_PACKED_RIGHT_TAG ? first : nullptr;
}
PTO_INLINE const pto_packed_right* packed_at(const pto_packed_right* packed, int i) {
  return packed ? packed + i : nullptr;
}

// The tasks that a program's lines ask for: at most `workers` of them, of `tiles` items each; 0
// leaves it to the machine.
struct Limits {
  int64_t workers = 0, tiles = 0;
  PTO_INLINE bool any() const { return workers > 0 || tiles > 0; }
  PTO_INLINE int32_t blocks(int64_t items, int64_t bytes) const {
    constexpr int64_t kMost = 1 << 20;
    int64_t count = tiles > 0 ? (items - 1) / tiles + 1 : pto_blocks_of(items, bytes);
    if (workers > 0 && workers < count) count = workers;
    return int32_t(count < kMost ? count : kMost);
  }
};

// Runs a region over its items: scalars[first] and the next get their number and quantum. One that
// takes no scratch memory is plain: the thread that called the program does little work of it
// itself, since a launch would take longer.
constexpr bool kPlain = true, kBuffered = false;
template <bool is_plain>
__attribute__((noinline)) int32_t run(const Frame& frame, pto_kernel kernel,
                                      const pto_tensor* tensors, int n, uint64_t* scalars,
                                      int n_scalars, int first, int64_t items, int64_t bytes,
                                      int64_t written, Limits limits = {}) {
  constexpr int64_t kLittle = 4 << 10;
  if (items <= 0) return 0;
  scalars[first] = uint64_t(items);
  scalars[first + 1] = 1;
  pto_args args = {PTO_ABI_VERSION,      n, tensors, n_scalars, 0, scalars, nullptr, 0,
                   frame.args->services, 0, 1};
  if (frame.is_root && limits.any())
    return pto_launch_blocks(kernel, &args, limits.blocks(items, bytes), written);
  if (frame.is_root && (!is_plain || bytes > kLittle))
    return pto_launch_items(kernel, &args, items, bytes, written);
  return kernel(&args);
}

// A repetition of more rounds counts as endless.
constexpr int64_t kMostRounds = int64_t(1) << 28;

// Returns how often a loop runs.
PTO_INLINE int64_t trips(int64_t start, int64_t stop, int64_t step) {
  const uint64_t size = step > 0 ? uint64_t(step) : uint64_t(0) - uint64_t(step);
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const uint64_t way =
      step > 0 ? uint64_t(stop) - uint64_t(start) : uint64_t(start) - uint64_t(stop);
  const uint64_t count = (way - 1) / size + 1;
  return count > uint64_t(INT64_MAX) ? INT64_MAX : int64_t(count);
}

// Turns an estimate of traffic into bytes, 10^18 at most.
PTO_INLINE int64_t work(double bytes) { return bytes < 1e18 ? int64_t(bytes) : int64_t(1e18); }

// Lets the host interrupt the loops of a program while it lives.
class Watched {
 public:
  Watched() { pto_watch_begin(); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { pto_watch_end(); }
};

// Returns non-zero where the program ends because it was interrupted.
PTO_INLINE int32_t interrupted(const Frame& frame) {
  const int32_t alarm = __atomic_load_n(&pto_alarm, __ATOMIC_RELAXED);
  return __builtin_expect(alarm != 0, 0) ? pto_answer_alarm(frame.args->services) : 0;
}

// Returns the end of the next iterations from k on that run without a look at the alarm.
PTO_INLINE int64_t stretch(int64_t k, int64_t count, int64_t most) {
  return count - k > most ? k + most : count;
}

// Iterations that may have nothing to do run beside each other where each thread has as many; else
// in order, so that the kernels of those that have something to do may use all threads.
constexpr int64_t kMayIdle = 4;

// Runs body(frame, k) for k = 0 .. count-1, the iterations beside each other where that pays and
// each thread has `least` of them. A body that takes memory has a Scope.
template <class Body>
PTO_INLINE int32_t for_each(const Frame& frame, int64_t count, int64_t bytes, const Body& body,
                            Limits limits = {}, int64_t least = 0) {
  if (frame.is_root && count > 1 && count >= least * frame.args->services->threads) {
    const int32_t blocks = limits.blocks(count, bytes);
    if (blocks > 1) {
      struct Job {
        const Body& body;
        int64_t count;
        static int32_t run(const pto_args* args) {
          const Job& job = *static_cast<const Job*>(args->params);
          Arena arena(args->services, false);
          const Frame here{args, arena, false};
          const int64_t begin =
              __extension__(int64_t)((__int128)job.count * args->block / args->blocks);
          const int64_t end =
              __extension__(int64_t)((__int128)job.count * (args->block + 1) / args->blocks);
          for (int64_t k = begin; k < end; ++k) {
            if (int32_t code = interrupted(here)) return code;
            if (int32_t code = job.body(here, k)) return code;
          }
          return 0;
        }
      };
      const Job job{body, count};
      pto_args args = *frame.args;
      args.params = &job;
      args.params_bytes = sizeof(job);
      return pto_launch(&Job::run, &args, blocks);
    }
  }
  for (int64_t k = 0; k < count; ++k) {
    if (int32_t code = interrupted(frame)) return code;
    if (int32_t code = body(frame, k)) return code;
  }
  return 0;
}

// Returns how many of `count` iterations, each of which keeps `kept` bytes, run as one group: as
// many as leave work for every thread and keep little of the second cache.
PTO_INLINE int64_t group_of(const Frame& frame, int64_t count, int64_t bytes, int64_t kept,
                            Limits limits = {}) {
  constexpr int64_t kMostKept = 128 << 10;
  int64_t width = count;
  if (frame.is_root && count > 1) {
    const int64_t blocks = limits.blocks(count, bytes), threads = frame.args->services->threads;
    const int64_t parts = limits.any() || blocks < threads ? blocks : threads;
    width = (count - 1) / (parts > 0 ? parts : 1) + 1;
  }
  const int64_t most = kept > 0 ? kMostKept / kept : count;
  if (most < width) width = most;
  return width > 1 ? width : 1;
}

// --- whole numbers and truth values: arithmetic wraps, as in the instruction table ---------------

template <class T>
PTO_INLINE T load_number(const void* p) {
  return T(*static_cast<const T*>(p));
}

#define PTO_WRAPPING(op, value)                      \
  template <class T>                                 \
  PTO_INLINE T op(T x, T y) {                        \
    const uint64_t a = uint64_t(x), b = uint64_t(y); \
    return T(value);                                 \
  }
#define PTO_PLAIN(op, value)  \
  template <class T>          \
  PTO_INLINE T op(T a, T b) { \
    return T(value);          \
  }
#define PTO_COMPARING(op, value) \
  template <class T>             \
  PTO_INLINE bool op(T a, T b) { \
    return value;                \
  }
namespace number {
PTO_WRAPPING(add, a + b)
PTO_WRAPPING(sub, a - b)
PTO_WRAPPING(mul, a* b)
PTO_PLAIN(div, lanes::divide_scalar<T>(a, b))
PTO_PLAIN(fmod, lanes::fmod_scalar<T>(a, b))
PTO_PLAIN(remainder, lanes::remainder_scalar<T>(a, b))
PTO_PLAIN(maximum, a < b ? b : a)
PTO_PLAIN(minimum, b < a ? b : a)
PTO_PLAIN(bitwise_and, a& b)
PTO_PLAIN(bitwise_or, a | b)
PTO_PLAIN(bitwise_xor, a ^ b)
PTO_PLAIN(logical_and, a&& b)
PTO_PLAIN(logical_or, a || b)
PTO_COMPARING(eq, a == b)
PTO_COMPARING(ne, a != b)
PTO_COMPARING(lt, a < b)
PTO_COMPARING(le, a <= b)
PTO_COMPARING(gt, a > b)
PTO_COMPARING(ge, a >= b)
template <class T>
PTO_INLINE T neg(T a) {
  return T(uint64_t(0) - uint64_t(a));
}
template <class T>
PTO_INLINE T abs(T a) {
  return a < T(0) ? neg(a) : a;
}
template <class T>
PTO_INLINE T bitwise_not(T a) {
  return T(~a);
}
template <class T>
PTO_INLINE T relu(T a) {
  return a < T(0) ? T(0) : a;
}
PTO_INLINE bool logical_not(bool a) { return !a; }
// x ** negative is 0, unless |x| is 1.
template <class T>
PTO_INLINE T pow(T a, T b) {
  if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
  T power = T(1);
  for (T base = a; b > T(0); b = T(b >> 1), base = mul(base, base))
    if (b & 1) power = mul(power, base);
  return power;
}
template <class T>
PTO_INLINE T where(bool condition, T a, T b) {
  return condition ? a : b;
}
}  // namespace number
#undef PTO_WRAPPING
#undef PTO_PLAIN
#undef PTO_COMPARING

}  // namespace program
PTO_NAMESPACE_END
