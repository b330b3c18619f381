// SPDX-License-Identifier: Apache-2.0
// A tensor over memory that the caller keeps alive, in the spelling of the public runtime library.
//
//     std::vector<float> data(16);
//     infini::rt::TensorView x{data.data(), std::vector<std::size_t>{4, 4},
//                              infini::rt::DataType::kFloat32, infini::rt::Device{}};
//     x.stride(-2);      // 4, elements
//     x[1].ToString();   // "tensor([0.000000, ...], dtype=float32, device='cpu:0')"
//
// Any type with data(), shape(), strides(), dtype() and device() becomes one.
// Errors: pto::aten::Error for other strides than sizes, an axis that is not there, and T() of
// another tensor than a matrix.
//
// Invariant: a tensor has as many strides as sizes.
// Thread safety: that of the memory.
#pragma once

#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "infini/data_type.h"

namespace infini::rt {

template <class T, class = void>
struct IsTensorLike : std::false_type {};
template <class T>
struct IsTensorLike<T, std::void_t<decltype(std::declval<const T&>().data()),
                                   decltype(std::declval<const T&>().shape()),
                                   decltype(std::declval<const T&>().strides()),
                                   decltype(std::declval<const T&>().dtype()),
                                   decltype(std::declval<const T&>().device())>> : std::true_type {
};

class TensorView {
 public:
  using Size = std::size_t;
  using Stride = std::ptrdiff_t;
  using Index = Stride;
  using Shape = std::vector<Size>;
  using Strides = std::vector<Stride>;
  using ShapeView = const Shape&;
  using StridesView = const Strides&;

  // Without strides the memory is row-major.
  TensorView(void* data, Shape shape, DataType dtype = DataType::kFloat32, Device device = {})
      : data_(data),
        shape_(std::move(shape)),
        strides_(row_major(shape_)),
        dtype_(dtype),
        device_(device) {}
  TensorView(void* data, Shape shape, Device device)
      : TensorView(data, std::move(shape), DataType::kFloat32, device) {}
  TensorView(void* data, Shape shape, DataType dtype, Device device, Strides strides)
      : data_(data),
        shape_(std::move(shape)),
        strides_(std::move(strides)),
        dtype_(dtype),
        device_(device) {
    if (strides_.size() != shape_.size())
      throw pto::aten::Error("a tensor of " + std::to_string(shape_.size()) + " sizes has " +
                                 std::to_string(strides_.size()) + " strides",
                             "each axis has one", "pass as many, or none for row-major memory");
  }
  template <class T, class = std::enable_if_t<IsTensorLike<T>::value>>
  TensorView(const T& tensor)
      : TensorView(const_cast<void*>(static_cast<const void*>(tensor.data())),
                   copied<Shape>(tensor.shape()), tensor.dtype(), tensor.device(),
                   copied<Strides>(tensor.strides())) {}

  void*& data() { return data_; }
  const void* data() const { return data_; }
  const DataType& dtype() const { return dtype_; }
  const Device& device() const { return device_; }
  const Shape& shape() const& { return shape_; }
  const Strides& strides() const& { return strides_; }
  Shape shape() const&& { return shape_; }
  Strides strides() const&& { return strides_; }
  Size size(Index axis) const { return shape_[place(axis)]; }
  Stride stride(Index axis) const { return strides_[place(axis)]; }
  Size ndim() const { return shape_.size(); }
  Size element_size() const { return row_of(dtype_).bytes; }
  Size numel() const {
    Size n = 1;
    for (const Size size : shape_) n *= size;
    return n;
  }

  // The part at an index of the first axis; negative ones count from its end.
  TensorView operator[](Index index) const {
    const auto n = static_cast<Index>(size(0));
    if (index < -n || index >= n)
      throw pto::aten::Error("index " + std::to_string(index) + " of a tensor",
                             "its first axis has " + std::to_string(n) + " elements",
                             "count from 0, or from -1 at the end");
    const Index at = (index < 0 ? index + n : index) * strides_[0];
    return {static_cast<char*>(data_) + at * static_cast<Index>(element_size()),
            Shape(shape_.begin() + 1, shape_.end()), dtype_, device_,
            Strides(strides_.begin() + 1, strides_.end())};
  }
  // The matrix with its axes exchanged.
  TensorView T() const {
    if (ndim() != 2)
      throw pto::aten::Error("T() of a tensor of " + std::to_string(ndim()) + " axes",
                             "it exchanges the two axes of a matrix",
                             "take a matrix by an index first");
    return {data_, Shape{size(1), size(0)}, dtype_, device_, Strides{stride(1), stride(0)}};
  }
  bool HasBroadcastDim() const {
    for (Size i = 0; i < ndim(); ++i)
      if (shape_[i] != 1 && strides_[i] == 0) return true;
    return false;
  }
  bool IsContiguous() const { return strides_ == row_major(shape_); }
  std::string ToString() const {
    return "tensor(" + elements() + ", dtype=" + std::string(row_of(dtype_).name) + ", device='" +
           device_.ToString() + "')";
  }

 private:
  template <class To, class From>
  static To copied(const From& from) {
    return To(from.begin(), from.end());
  }
  static Strides row_major(const Shape& shape) {
    Strides strides(shape.size(), 1);
    for (Size i = shape.size(); i > 1; --i)
      strides[i - 2] = strides[i - 1] * static_cast<Stride>(shape[i - 1]);
    return strides;
  }
  Size place(Index axis) const {
    const auto rank = static_cast<Index>(ndim());
    const Index at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank)
      throw pto::aten::Error("axis " + std::to_string(axis) + " of a tensor",
                             "it has " + std::to_string(rank) + " axes",
                             "count from 0, or from -1 at the end");
    return static_cast<Size>(at);
  }
  template <class T>
  std::string element() const {
    return std::to_string(*static_cast<const T*>(data_));
  }
  std::string elements() const {
    if (ndim() == 0) return one_element();
    std::string text = "[";
    for (Size i = 0; i < shape_[0]; ++i)
      text += (i ? ", " : "") + operator[](static_cast<Index>(i)).elements();
    return text + "]";
  }
  std::string one_element() const {
    switch (dtype_) {
      case DataType::kInt8:
        return element<std::int8_t>();
      case DataType::kInt16:
        return element<std::int16_t>();
      case DataType::kInt32:
        return element<std::int32_t>();
      case DataType::kInt64:
        return element<std::int64_t>();
      case DataType::kUInt8:
      case DataType::kBool:
        return element<std::uint8_t>();
      case DataType::kUInt16:
        return element<std::uint16_t>();
      case DataType::kUInt32:
        return element<std::uint32_t>();
      case DataType::kUInt64:
        return element<std::uint64_t>();
      case DataType::kFloat32:
        return element<float>();
      case DataType::kFloat64:
        return element<double>();
      default:
        throw pto::aten::Error("a tensor of " + std::string(row_of(dtype_).name) + " as text",
                               "C++17 has no number of this type", "convert it to float32 first");
    }
  }

  void* data_;
  Shape shape_;
  Strides strides_;
  DataType dtype_;
  Device device_;
};

}  // namespace infini::rt
