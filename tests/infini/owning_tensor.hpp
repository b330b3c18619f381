// SPDX-License-Identifier: Apache-2.0
// A tensor that owns its memory, as a user of the public library writes one.
#pragma once

#include <infini/ops.h>

#include <cstdio>
#include <utility>
#include <vector>

class OwningTensor {
 public:
  using Shape = infini::ops::Tensor::Shape;
  using Strides = infini::ops::Tensor::Strides;

  template <class T>
  OwningTensor(std::vector<T> values, Shape shape, infini::ops::DataType type)
      : OwningTensor(std::move(shape), type) {
    std::memcpy(bytes_.data(), values.data(), bytes_.size());
  }
  OwningTensor(std::vector<float> values, Shape shape)
      : OwningTensor(std::move(values), std::move(shape), infini::ops::DataType::kFloat32) {}

  static OwningTensor Empty(const Shape& shape, infini::ops::DataType type, infini::ops::Device) {
    return OwningTensor(shape, type);
  }

  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  infini::ops::DataType dtype() const { return type_; }
  infini::ops::Device device() const { return infini::ops::Device::Type::kCpu; }

  template <class T>
  T at(std::size_t i) const {
    return reinterpret_cast<const T*>(bytes_.data())[i];
  }

 private:
  OwningTensor(Shape shape, infini::ops::DataType type) : shape_(std::move(shape)), type_(type) {
    const infini::ops::Tensor view(nullptr, shape_, type);
    strides_ = view.strides();
    bytes_.resize(view.numel() * view.element_size());
  }
  Shape shape_;
  Strides strides_;
  infini::ops::DataType type_;
  std::vector<char> bytes_;
};

inline int failures = 0;

inline void check(bool holds, const char* what) {
  if (!holds) std::printf("FAILED: %s\n", what), ++failures;
}

// Calls f, which has to throw an error of what, why and fix that holds a text.
template <class F>
void refused(F f, const char* text) {
  try {
    f();
    std::printf("FAILED: nothing was refused: %s\n", text), ++failures;
  } catch (const std::exception& error) {
    const std::string said = error.what();
    const bool is_whole = said.find("why:") != said.npos && said.find("fix:") != said.npos;
    if (said.find(text) == said.npos || !is_whole)
      std::printf("FAILED: %s\n  is not: %s\n", said.c_str(), text), ++failures;
  }
}
