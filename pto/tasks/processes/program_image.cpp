// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/program_image.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

#include "pto/base/error.hpp"

namespace pto {
namespace {

// Both visit the fields of an image in one order, by fields() below.
class ImageWriter {
 public:
  template <class T>
  void field(const T& number) {
    const auto value = uint64_t(number);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void field(const std::string& text) {
    field(text.size());
    bytes_ += text;
  }
  template <class T>
  void field(const std::vector<T>& list) {
    field(list.size());
    for (const T& one : list) fields(*this, one);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ImageReader {
 public:
  explicit ImageReader(std::span<const char> bytes) : left_(bytes) {}
  template <class T>
  void field(T& number) {
    uint64_t value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    number = T(value);
  }
  void field(std::string& text) {
    uint64_t size = 0;
    field(size);
    text.assign(take(size), size);
  }
  template <class T>
  void field(std::vector<T>& list) {
    uint64_t count = 0;
    field(count);
    if (count > left_.size() / 8) refuse();  // items have at least 8 bytes each
    list.resize(size_t(count));
    for (T& one : list) fields(*this, one);
  }

 private:
  const char* take(uint64_t bytes) {
    if (bytes > left_.size()) refuse();
    const char* const begin = left_.data();
    left_ = left_.subspan(size_t(bytes));
    return begin;
  }
  [[noreturn]] static void refuse() {
    fail({"an image of a program that ends too early",
          "the memory that both processes share was written over",
          "look for a kernel that writes through a wild pointer: compile it with -DPTO_CHECKED"},
         ErrorKind::Runtime);
  }
  std::span<const char> left_;
};

template <class T, class Image>
concept IsPart = std::is_same_v<std::remove_const_t<T>, Image>;

template <IsPart<std::string> T>
void fields(auto& codec, T& text) {
  codec.field(text);
}
template <IsPart<ProgramImage::Code> T>
void fields(auto& codec, T& code) {
  codec.field(code.name);
  codec.field(code.object);
  codec.field(code.functions);
}
template <IsPart<ProgramImage::Kernel> T>
void fields(auto& codec, T& kernel) {
  codec.field(kernel.names);
  codec.field(kernel.code);
  codec.field(kernel.function);
}
template <IsPart<ProgramImage> T>
void fields(auto& codec, T& image) {
  codec.field(image.kind);
  codec.field(image.name);
  codec.field(image.payload);
  codec.field(image.codes);
  codec.field(image.kernels);
}

}  // namespace

std::string to_bytes(const ProgramImage& image) {
  ImageWriter to;
  fields(to, image);
  return to.take();
}

ProgramImage image_of(std::span<const char> bytes) {
  ImageReader from(bytes);
  ProgramImage image;
  fields(from, image);
  return image;
}

}  // namespace pto
