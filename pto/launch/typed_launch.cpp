// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/typed_launch.hpp"

#include <algorithm>
#include <deque>
#include <memory>

#include "pto/abi/device_queue.h"
#include "pto/launch/launch.hpp"

namespace pto {
namespace {

// A launch that outlives its caller, with sizes and strides of its own.
struct Pending {
  TypedLaunch launch;
  std::deque<std::vector<int64_t>> sizes = {};

  explicit Pending(const TypedLaunch& from) : launch(from) {
    for (pto_tensor& tensor : launch.tensors) {
      tensor.sizes = kept(tensor.sizes, tensor.rank);
      tensor.strides = kept(tensor.strides, tensor.rank);
    }
  }

  const int64_t* kept(const int64_t* values, int32_t rank) {
    if (!values) return nullptr;
    return sizes.emplace_back(values, values + rank).data();
  }

  static int32_t run(void* self) { return static_cast<Pending*>(self)->launch.run(); }
  static void release(void* self) { delete static_cast<Pending*>(self); }
};

}  // namespace

int32_t TypedLaunch::run() const {
  const pto_args args = args_of(tensors, scalars);
  return pto_launch(kernel, &args, blocks);
}

int32_t TypedLaunch::run_on(int32_t device, const void* stream,
                            std::span<const pto_argument> arguments) const {
  std::vector<const void*> objects, pointers;
  int64_t bytes = 0;
  bool has_pointer = false;
  for (const pto_argument& argument : arguments) {
    bytes = std::max(bytes, argument.bytes);
    if (argument.kind == PTO_ARGUMENT_TENSOR) objects.push_back(argument.object);
    if (argument.kind != PTO_ARGUMENT_POINTER || argument.data == nullptr) continue;
    has_pointer = true;
    if (argument.device >= 0) pointers.push_back(argument.data);
  }
  // A caller that passes a pointer may free its memory as soon as the call returns, so the call
  // waits. With pointers alone and a stream of its own, the caller has to keep the memory.
  const bool must_wait = has_pointer && (!objects.empty() || !stream);
  if (!stream) stream = pto_device_current_stream(device);
  const pto_device_job job{&Pending::run,
                           &pto_last_error,
                           &Pending::release,
                           new Pending(*this),
                           objects.data(),
                           static_cast<int32_t>(objects.size()),
                           bytes,
                           pointers.data(),
                           static_cast<int32_t>(pointers.size())};
  const int32_t code = pto_device_submit(device, stream, &job);
  return code == 0 && must_wait ? pto_device_wait(stream) : code;
}

}  // namespace pto
