// SPDX-License-Identifier: Apache-2.0
// Tensors of the public spelling (orchestration_api.h): a descriptor whose fields may be read.
//
//     ChipTensor row = tensor.view(shape, offset), column = tensor.transpose(0, 1);
//
// Invariant: offset, shapes and strides count elements; a view lies inside its tensor.
// Thread safety: values.
#pragma once

#include "pto/runtime.h"

namespace pto {
namespace compat {
[[noreturn]] inline void refuse(const std::string& what, const std::string& why,
                                const std::string& fix) {
  throw std::runtime_error(what + "\n  why: " + why + "\n  fix: " + fix);
}
}  // namespace compat
}  // namespace pto

enum class DataType : uint8_t {
  FLOAT32,
  FLOAT16,
  INT32,
  INT16,
  INT8,
  UINT8,
  BFLOAT16,
  INT64,
  UINT64,
  UINT16,
  UINT32,
  BOOL,
  FP8E4M3FN,
  FP8E8M0,  // a shared exponent
  FP4E2M1,  // two in a byte
  DATA_TYPE_NUM
};

// Ends the run unless the condition holds.
#define always_assert(condition)                                                                  \
  ((condition) ? void(0)                                                                          \
               : pto::compat::refuse(                                                             \
                     "always_assert(" #condition ") of " __FILE__ ":" + std::to_string(__LINE__), \
                     "the orchestration needs it to hold", "mend that line, or what it checks"))

struct TaskId {
  uint64_t raw = 0;
  static TaskId invalid() { return {}; }
  static TaskId make(uint8_t ring, uint32_t local) { return {uint64_t(ring) << 32 | local}; }
  uint8_t ring() const { return uint8_t(raw >> 32); }
  uint32_t local() const { return uint32_t(raw); }
  bool is_valid() const { return raw != 0; }
  bool is_invalid() const { return raw == 0; }
  bool operator==(TaskId other) const { return raw == other.raw; }
  bool operator!=(TaskId other) const { return raw != other.raw; }
};
using PTO2TaskId = TaskId;

namespace pto {
namespace compat {

inline ElementType element_type(DataType type) {
  constexpr ElementType e4m3{10, 8}, e8m0{14, 8}, e2m1{17, 4};
  constexpr ElementType types[] = {element::f32, element::f16, element::i32,  element::i16,
                                   element::i8,  element::u8,  element::bf16, element::i64,
                                   element::u64, element::u16, element::u32,  element::boolean,
                                   e4m3,         e8m0,         e2m1};
  if (type >= DataType::DATA_TYPE_NUM)
    refuse("unknown element type " + std::to_string(int(type)), "DataType counts 15 types from 0",
           "use a name of DataType, such as DataType::FLOAT32");
  return types[int(type)];
}

inline DataType data_type_of(ElementType type, int argument) {
  for (int k = 0; k < int(DataType::DATA_TYPE_NUM); ++k)
    if (element_type(DataType(k)) == type) return DataType(k);
  refuse("argument " + std::to_string(argument) + " has elements of type code " +
             std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits",
         "DataType has no name for that", "pass another array, or orchestrate by pto/runtime.h");
}

}  // namespace compat
}  // namespace pto

inline uint64_t get_element_size(DataType type) {
  return uint64_t(pto::compat::element_type(type).bits + 7) / 8;
}

// Converts a value to its bits; from_u64() converts back.
template <class T>
uint64_t to_u64(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t),
                "to_u64(): a value must have at most 8 bytes; pass a smaller type");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_u64(uint64_t bits) {
  static_assert(sizeof(T) <= sizeof(uint64_t),
                "from_u64(): T must have at most 8 bytes; name a smaller type");
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline constexpr uint32_t MAX_TENSOR_DIMS = PTO_MAX_RANK;

class ChipTensor {
 public:
  struct {
    uint64_t addr, size;  // of the first element, and all bytes from there; those of the whole
  } buffer{};
  TaskId owner_task_id;       // that made it; invalid: an argument of the run
  uint64_t start_offset = 0;  // of the view
  uint32_t ndims = 0;
  DataType dtype = DataType::FLOAT32;
  bool manual_dep = false;  // no dependency is inferred but on its owner
  bool is_contiguous = true;
  uint32_t shapes[MAX_TENSOR_DIMS] = {};
  int64_t strides[MAX_TENSOR_DIMS] = {};
  uint64_t scope = 0;  // that it was made in; 0: the run's

  ChipTensor() = default;
  ChipTensor(const pto_view& view, DataType type, TaskId owner, uint64_t made_in)
      : owner_task_id(owner), dtype(type), scope(made_in), whole_(view) {
    buffer = {reinterpret_cast<uint64_t>(view.data), 0};
    take(view);
    buffer.size = nbytes();
  }

  const ChipTensor& ref() const { return *this; }
  uint64_t numel() const {
    uint64_t n = 1;
    for (uint32_t k = 0; k < ndims; ++k) n *= shapes[k];
    return n;
  }
  uint64_t nbytes() const { return numel() * get_element_size(dtype); }
  template <class T>
  T* data_as() const {
    return reinterpret_cast<T*>(buffer.addr);
  }

  ChipTensor view(const uint32_t shape[], const uint32_t offset[], bool manual = false) const {
    pto::View part(raw());
    bool is_empty = false;
    for (uint32_t k = 0; k < ndims; ++k) is_empty = is_empty || shape[k] == 0;
    for (uint32_t k = 0; k < ndims; ++k) {
      const int64_t from = is_empty ? 0 : offset[k];  // an empty view may begin anywhere
      part = part.slice(int(k), from, from + (is_empty ? 0 : shape[k]));
    }
    return with(part, manual);
  }
  ChipTensor transpose(uint32_t a, uint32_t b, bool manual = false) const {
    return with(pto::View(raw()).transpose(int(a), int(b)), manual);
  }
  ChipTensor permute(const uint32_t order[], bool manual = false) const {
    return with(pto::View(raw()).permute(std::vector<int>(order, order + ndims)), manual);
  }
  ChipTensor slice(uint32_t dim, uint32_t start, uint32_t end, uint32_t step = 1,
                   bool manual = false) const {
    return with(pto::View(raw()).slice(int(dim), start, end, step), manual);
  }
  ChipTensor reshape(const uint32_t shape[], uint32_t count, bool manual = false) const {
    return with(pto::View(raw()).reshape(pto::Dimensions(shape, shape + count)), manual);
  }

  // Describes the view as the runtime takes it.
  pto_view raw() const {
    if (whole_.allocation == nullptr)
      pto::compat::refuse("a tensor that was made by its default constructor",
                          "it names no memory of the run",
                          "use an argument, an output of a task, or a view of them");
    pto_view view = whole_;
    view.data = data_as<char>() + start_offset * get_element_size(dtype);
    view.rank = int32_t(ndims);
    for (uint32_t k = 0; k < ndims; ++k) {
      view.sizes[k] = shapes[k];
      view.strides[k] = strides[k];
    }
    return view;
  }

 private:
  ChipTensor with(const pto::View& part, bool manual) const {
    ChipTensor result = *this;
    result.manual_dep = manual;
    result.take(part.raw());
    return result;
  }
  void take(const pto_view& view) {
    const int64_t bytes = static_cast<char*>(view.data) - data_as<char>();
    start_offset = uint64_t(bytes / int64_t(get_element_size(dtype)));
    ndims = uint32_t(view.rank);
    int64_t next = 1;
    is_contiguous = true;
    for (int32_t k = view.rank - 1; k >= 0; next *= view.sizes[k--]) {
      if (view.sizes[k] > UINT32_MAX)
        pto::compat::refuse("a dimension of " + std::to_string(view.sizes[k]) + " elements",
                            "the public descriptor counts in 32 bits",
                            "reshape it, or orchestrate by pto/runtime.h");
      shapes[k] = uint32_t(view.sizes[k]);
      strides[k] = view.strides[k];
      is_contiguous = is_contiguous && (view.sizes[k] == 1 || view.strides[k] == next);
    }
  }

  pto_view whole_{};  // for the allocation and the flags
};
using Tensor = ChipTensor;
namespace simpler {
namespace hbg {
using Tensor = ::ChipTensor;
}
}  // namespace simpler

inline const ChipTensor& from_tensor_arg(const ChipTensor& tensor) { return tensor; }

// A tensor that the runtime shall make.
class TensorCreateInfo {
 public:
  TensorCreateInfo() = default;
  TensorCreateInfo(const uint32_t shape[], uint32_t count, DataType type = DataType::FLOAT32,
                   bool manual = false)
      : ndims(count), dtype(type), manual_dep(manual) {
    if (count > MAX_TENSOR_DIMS)
      pto::compat::refuse("a tensor of " + std::to_string(count) + " dimensions",
                          "tensors have at most " + std::to_string(MAX_TENSOR_DIMS), "reshape it");
    for (uint32_t k = 0; k < count; ++k) shapes[k] = shape[k];
  }
  template <class T = uint64_t>
  void set_initial_value(T value) {  // of each element, as it lies in memory
    has_initial_value = true;
    initial_value = to_u64(value);
  }

  uint64_t buffer_size_bytes() const {  // at most UINT64_MAX, which no memory has
    uint64_t bytes = get_element_size(dtype);
    for (uint32_t k = 0; k < ndims; ++k)
      if (__builtin_mul_overflow(bytes, uint64_t(shapes[k]), &bytes)) bytes = UINT64_MAX;
    return bytes;
  }

  uint64_t initial_value = 0;
  bool has_initial_value = false;
  uint32_t ndims = 0;
  DataType dtype = DataType::FLOAT32;
  bool manual_dep = false;
  uint32_t shapes[MAX_TENSOR_DIMS] = {};
};
