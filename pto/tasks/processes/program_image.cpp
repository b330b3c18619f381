// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/processes/program_image.hpp"

#include <cstring>

#include "pto/base/error.hpp"

namespace pto {
namespace {

class Writer {
 public:
  void number(uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number(value.size());
    bytes_ += value;
  }
  void texts(const std::vector<std::string>& values) {
    number(values.size());
    for (const std::string& value : values) text(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : left_(bytes) {}
  uint64_t number() {
    uint64_t value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  size_t count() {  // of items of at least 8 bytes each
    const uint64_t value = number();
    if (value > left_.size() / 8) refuse();
    return size_t(value);
  }
  std::string text() {
    const uint64_t size = number();
    return std::string(take(size), size);
  }
  std::vector<std::string> texts() {
    std::vector<std::string> values(count());
    for (std::string& value : values) value = text();
    return values;
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

}  // namespace

std::string to_bytes(const ProgramImage& image) {
  Writer to;
  to.number(uint64_t(image.kind));
  to.text(image.name);
  to.text(image.payload);
  to.number(image.codes.size());
  for (const ProgramImage::Code& code : image.codes) {
    to.text(code.name);
    to.text(code.object);
    to.texts(code.functions);
  }
  to.number(image.kernels.size());
  for (const ProgramImage::Kernel& kernel : image.kernels) {
    to.texts(kernel.names);
    to.number(kernel.code);
    to.text(kernel.function);
  }
  return to.take();
}

ProgramImage image_of(std::span<const char> bytes) {
  Reader from(bytes);
  ProgramImage image;
  image.kind = ProgramKind(from.number());
  image.name = from.text();
  image.payload = from.text();
  image.codes.resize(from.count());
  for (ProgramImage::Code& code : image.codes) {
    code.name = from.text();
    code.object = from.text();
    code.functions = from.texts();
  }
  image.kernels.resize(from.count());
  for (ProgramImage::Kernel& kernel : image.kernels) {
    kernel.names = from.texts();
    kernel.code = uint32_t(from.number());
    kernel.function = from.text();
  }
  return image;
}

}  // namespace pto
