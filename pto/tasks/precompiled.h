// SPDX-License-Identifier: Apache-2.0
// Kernels of another compiler: the parts of the adapters that pto.compile() writes for them.
//
//     const pto::precompiled::Declaration declared{
//         "add", {{"x", pto::precompiled::kInput, "float32", 2, 32}}, {}};
//     extern "C" int32_t pto_adapt_add(const pto_args* a) {
//       if (const int32_t code = pto::precompiled::check(declared, a)) return code;
//       add(a->tensors[0].data);
//       return 0;
//     }
//
// Invariant: an adapter calls the kernel only with tensors and scalars as declared, each tensor
// row-major without gaps.
// Thread safety: any thread may call all functions.
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "pto/abi/parameter.h"
#include "pto/base/error_message.hpp"

namespace pto {
namespace precompiled {

enum Direction : uint8_t { kInput, kOutput, kInout };

struct Tensor {
  const char* name;
  Direction direction;
  const char* dtype;  // "": any
  uint8_t code, bits;
};
struct Scalar {
  const char* name;
  const char* type;
};
struct Declaration {
  const char* symbol;
  std::vector<Tensor> tensors;
  std::vector<Scalar> scalars;
};

inline int32_t refuse(const pto_args* args, const std::string& what, const std::string& why,
                      const std::string& fix) {
  return args->services->fail(args->services, error_message(what, why, fix).c_str());
}

inline std::string type_text(uint8_t code, uint8_t bits) {
  const char* const names[] = {"int", "uint", "float", "opaque", "bfloat", "complex"};
  if (code == 6) return "bool";
  return (code < 6 ? names[code] : "type ") + std::to_string(bits);
}

inline std::string text_of(const Declaration& declared) {
  const char* const directions[] = {"input ", "output ", "inout "};
  std::string all = "(";
  for (const Tensor& tensor : declared.tensors)
    all += (all.size() > 1 ? ", " : "") + std::string(directions[tensor.direction]) + tensor.name +
           (tensor.dtype[0] != 0 ? std::string(" ") + tensor.dtype : "");
  for (const Scalar& scalar : declared.scalars)
    all += (all.size() > 1 ? ", " : "") + std::string("scalar ") + scalar.name + " " + scalar.type;
  return std::string(declared.symbol) + all + ")";
}

inline bool has_gaps(const pto_tensor& tensor) {
  if (tensor.flags & PTO_TENSOR_CONTIGUOUS) return false;
  int64_t next = 1;
  bool gaps = false;
  for (int32_t k = tensor.rank - 1; k >= 0; next *= tensor.sizes[k--]) {
    if (tensor.sizes[k] == 0) return false;
    gaps = gaps || (tensor.sizes[k] != 1 && tensor.strides[k] != next);
  }
  return gaps;
}

inline int32_t check_tensor(const Declaration& declared, const pto_args* args, size_t place) {
  const Tensor& wanted = declared.tensors[place];
  const pto_tensor& given = args->tensors[place];
  if (given.flags & PTO_TENSOR_ABSENT)
    return refuse(args,
                  std::string(declared.symbol) + ": tensor " + std::to_string(place) + ", " +
                      wanted.name + ", is declared and not given",
                  "it is called as " + text_of(declared), "submit a tensor for each");
  const std::string head = std::string(declared.symbol) + ": tensor " + std::to_string(place) +
                           ", " + wanted.name + ", ";
  if (wanted.dtype[0] != 0 && (given.type_code != wanted.code || given.type_bits != wanted.bits))
    return refuse(args,
                  head + "is declared " + wanted.dtype + ", given is " +
                      type_text(given.type_code, given.type_bits),
                  "it is called as " + text_of(declared),
                  "submit a tensor of that type, or correct the declaration");
  if (wanted.direction != kInput && (given.flags & PTO_TENSOR_READ_ONLY))
    return refuse(args,
                  head + "is declared " + (wanted.direction == kOutput ? "output" : "inout") +
                      ", given is an input",
                  "the runtime orders tasks by what they are submitted with",
                  "submit it as out() or inout(), or correct the declaration");
  if (has_gaps(given))
    return refuse(args, head + "is given with gaps between its elements",
                  "the kernel gets an address alone, so memory must be row-major without gaps",
                  "submit a contiguous tensor");
  return 0;
}

// Returns 0 if the call fits the declaration; else fails the launch with a sentence.
inline int32_t check(const Declaration& declared, const pto_args* args) {
  if (size_t(args->n_tensors) != declared.tensors.size() ||
      size_t(args->n_scalars) != declared.scalars.size())
    return refuse(args,
                  std::string(declared.symbol) + ": declared with " +
                      std::to_string(declared.tensors.size()) + " tensors and " +
                      std::to_string(declared.scalars.size()) + " scalars, given " +
                      std::to_string(args->n_tensors) + " and " + std::to_string(args->n_scalars),
                  "it is called as " + text_of(declared),
                  "submit these, in this order, or correct tensor_args and scalars");
  for (size_t place = 0; place < declared.tensors.size(); ++place)
    if (const int32_t code = check_tensor(declared, args, place)) return code;
  return 0;
}

// Exports the scalars that the adapter takes, so that submissions are checked against them.
class Exported {
 public:
  Exported(pto_kernel adapter, const Declaration& declared) : adapter_(adapter) {
    std::vector<pto_parameter> numbers;
    for (const Scalar& scalar : declared.scalars) numbers.push_back(parameter_of(scalar.type));
    const pto_signature signature{declared.symbol, numbers.data(), int32_t(numbers.size())};
    pto_export_kernel(adapter, &signature);
  }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported() { pto_export_kernel(adapter_, nullptr); }

 private:
  static pto_parameter parameter_of(const std::string& type) {
    const uint8_t bits = type.find("64") == std::string::npos ? 32 : 64;
    const uint8_t code = type[0] == 'f' ? 2 : type[0] == 'u' ? 1 : 0;
    return {0, 0, code, bits};
  }
  const pto_kernel adapter_;
};

// Returns scalar `place` as the kernel's parameter type.
template <class T>
int32_t scalar(const Declaration& declared, const pto_args* args, size_t place, T* value) {
  std::string given;
  if constexpr (std::is_floating_point<T>::value) {
    double wide;
    __builtin_memcpy(&wide, &args->scalars[place], sizeof wide);
    if (!std::isfinite(wide) || std::fabs(wide) <= double(std::numeric_limits<T>::max())) {
      *value = T(wide);
      return 0;
    }
    given = std::to_string(wide);
  } else {
    const int64_t wide = int64_t(args->scalars[place]);
    *value = T(wide);
    if (int64_t(*value) == wide) return 0;
    given = std::to_string(wide);
  }
  const Scalar& wanted = declared.scalars[place];
  return refuse(args,
                std::string(declared.symbol) + ": scalar " + std::to_string(place) + ", " +
                    wanted.name + ", is declared " + wanted.type + ", given is " + given,
                "it does not fit that type", "submit a smaller number, or declare a wider type");
}

// Allocates memory for this call; returns null and fails the launch if there is none.
inline void* workspace(const Declaration& declared, const pto_args* args, size_t bytes) {
  void* const memory = args->services->scratch(args->services, bytes);
  if (memory == nullptr)
    refuse(args,
           std::string(declared.symbol) + ": no memory for a workspace of " +
               std::to_string(bytes) + " bytes",
           "each block has its own", "declare a smaller one, or run fewer workers");
  return memory;
}

// A function of a shared object given as bytes; the object stays loaded while this lives.
class SharedObject {
 public:
  SharedObject(const char* begin, const char* end, const char* symbol) {
    const char* folder = getenv("TMPDIR");
    std::string path = folder != nullptr && folder[0] != 0 ? folder : P_tmpdir;
    path += "/openpto-XXXXXX";
    const int file = mkstemp(&path[0]);
    if (file < 0) {
      text_ = std::string(symbol) + ": no temporary file " + path + " for its shared object";
      return;
    }
    bool is_written = true;
    for (const char* at = begin; is_written && at < end;) {
      const ssize_t n = write(file, at, size_t(end - at));
      is_written = n > 0;
      at += n;
    }
    close(file);
    handle_ = is_written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    unlink(path.c_str());
    if (handle_ != nullptr) function_ = dlsym(handle_, symbol);
    if (function_ != nullptr) return;
    const char* const why = is_written ? dlerror() : "the temporary folder is full";
    text_ = std::string(symbol) + ": its shared object: " + (why == nullptr ? "" : why);
  }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  ~SharedObject() {
    if (handle_ != nullptr) dlclose(handle_);
  }

  void* function() const { return function_; }
  const char* text() const { return text_.c_str(); }  // why it was not loaded, or ""

 private:
  void* handle_ = nullptr;
  void* function_ = nullptr;
  std::string text_;
};

}  // namespace precompiled
}  // namespace pto
