// SPDX-License-Identifier: Apache-2.0
// The functions that ops.Custom looks up in this library: pto_mindspore_one for operators with one
// result, pto_mindspore_many for the others. The primitive's attributes name the operator, so two
// names serve every operator, and an exported graph keeps its meaning.
// Thread safety: that of MindSpore's calls; pto_mindspore_set_type_ids() is called once, before.
#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "pto/adapters/mindspore/interface.hpp"
#include "pto/adapters/mindspore/request.hpp"
#include "pto/adapters/mindspore/shapes.hpp"
#include "pto/base/dtype.hpp"

namespace pto::mindspore_adapter {
namespace {

int32_t type_ids[kDTypes];  // MindSpore's numbers of element types, set once at load

// By MindSpore's name.
int32_t dtype_of(const Request& request, const char* name) {
  for (int32_t i = 0; i < kDTypes; ++i) {
    if (numpy_name(static_cast<DType>(i)) == name) return i;
  }
  fail(std::string(request.op().name) + ": a tensor has the dtype " + name,
       "kernels exist for bool, integers, float16, bfloat16, float32 and float64",
       "convert it first: x.astype(mindspore.float32)");
}

Request request_of(PrimitiveAttributes& attributes) {
  return {attributes.text("pto_operator"), attributes.text("pto_call"),
          attributes.has("pto_schema") ? attributes.text("pto_schema") : ""};
}

// Says whether a result of rank 0 has the shape (1,): MindSpore's graphs would make it a number.
bool lifts_scalars(PrimitiveAttributes& attributes) { return attributes.has("pto_lifts_scalars"); }

// The state of a kernel between launches: the request, or the text of its error.
struct Kept : KernelData {
  std::unique_ptr<const Request> request;
  bool lifts_scalars = false;
  std::string error;
};

class CustomLaunch {
 public:
  CustomLaunch(const Kept& kept, int count, void** data, const int* ranks, int64_t** shapes,
               const char** dtypes)
      : request_(*kept.request),
        lifts_scalars_(kept.lifts_scalars),
        data_(data),
        ranks_(ranks),
        shapes_(shapes),
        dtypes_(dtypes),
        outputs_(count - static_cast<int32_t>(request_.n_tensors())) {}

  void run() {
    tensors_.resize(request_.n_tensors());
    if (outputs_ < 0) disagree();
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i] = {data_[i], shapes_[i], nullptr, ranks_[i], dtype_of(request_, dtypes_[i])};
    }
    call_ = request_.call(tensors_.data());
    call_.allocate = &CustomLaunch::allocate;
    call_.user = this;
    if (pto_operator_run(&call_) != 0) {
      if (disagrees_) disagree();
      throw std::runtime_error(pto_operator_error());
    }
  }

 private:
  // Checks that the outputs, which MindSpore has already made, are those that the kernel makes.
  static void* allocate(void* user, int32_t output, int32_t member, const int64_t* sizes,
                        int32_t rank, int32_t dtype) {
    auto& self = *static_cast<CustomLaunch*>(user);
    const size_t place = place_of(self.call_, output, member);
    self.disagrees_ = place >= static_cast<size_t>(self.outputs_) ||
                      !self.agrees(self.tensors_.size() + place, sizes, rank, dtype);
    if (self.disagrees_) return nullptr;
    void* data = self.data_[self.tensors_.size() + place];
    return data ? data : user;  // an empty tensor may have no memory, and is not written
  }

  bool agrees(size_t place, const int64_t* sizes, int32_t rank, int32_t dtype) const {
    if (dtype_of(request_, dtypes_[place]) != dtype) return false;
    const int64_t one = 1;
    const bool lifted = rank == 0 && lifts_scalars_;
    const int64_t* wanted = lifted ? &one : sizes;
    const int wanted_rank = lifted ? 1 : rank;
    return ranks_[place] == wanted_rank && std::equal(wanted, wanted + wanted_rank, shapes_[place]);
  }

  [[noreturn]] void disagree() const {
    fail(std::string(request_.op().name) +
             ": the results have other shapes or types than MindSpore"
             " has made room for",
         "they were inferred from other arguments, or by another version of the operator",
         "export or compile the graph again");
  }

  const Request& request_;
  bool lifts_scalars_;
  void** data_;
  const int* ranks_;
  int64_t** shapes_;
  const char** dtypes_;
  int32_t outputs_;
  std::vector<pto_tensor_ref> tensors_;
  pto_operator_call call_ = {};
  bool disagrees_ = false;
};

int init(PrimitiveAttributes& attributes) {
  auto kept = std::make_unique<Kept>();
  try {
    kept->request.reset(new Request(request_of(attributes)));
    kept->lifts_scalars = lifts_scalars(attributes);
  } catch (const std::exception& error) {
    kept->error = error.what();  // MindSpore logs an error of Init and loses its text
  }
  attributes.keep(kept.release());
  return 0;
}

int launch(int count, void** data, int* ranks, int64_t** shapes, const char** dtypes,
           void* attributes) {
  const auto* kept =
      static_cast<const Kept*>(static_cast<PrimitiveAttributes*>(attributes)->kept());
  if (!kept->request) throw std::runtime_error(kept->error);
  CustomLaunch(*kept, count, data, ranks, shapes, dtypes).run();
  return 0;
}

// The counts of tensors in the calling thread's last results with lists: MindSpore asks for types
// after shapes, and without them.
thread_local std::pair<std::string, std::vector<int32_t>> last_counts;

std::vector<Shape> shapes_of(int* ranks, int64_t** shapes, PrimitiveAttributes& attributes) {
  const Request request = request_of(attributes);
  InferredResults results = infer_shapes(request, ranks, shapes, nullptr);
  if (lifts_scalars(attributes)) {
    for (Shape& shape : results.tensors) {
      if (shape.empty()) shape.push_back(1);
    }
  }
  last_counts = {request.op().name + request.text(), std::move(results.counts)};
  return std::move(results.tensors);
}

// Returns the element type of an output: that of the arguments with its type variable.
int32_t type_of(const Request& request, const pto_operator_output& output,
                const std::vector<int32_t>& types) {
  if (output.type < 0) return type_ids[-1 - output.type];
  for (size_t i = 0; i < types.size(); ++i) {
    if (request.argument(i).type == output.type) return types[i];
  }
  fail(std::string(request.op().name) + ": the dtype of its result is not known",
       "the result has the dtype of an optional tensor, and none was given",
       "pass at least one of the optional tensors");
}

std::vector<int32_t> types_of(const std::vector<int32_t>& types, PrimitiveAttributes& attributes) {
  const Request request = request_of(attributes);
  const pto_operator& op = request.op();
  std::vector<int32_t> results;
  if (types.size() != request.n_tensors()) {
    fail(std::string(op.name) + ": the number of tensors is " + std::to_string(types.size()) +
             ", but the primitive was made for " + std::to_string(request.n_tensors()),
         "a primitive serves one number of tensors", "make a primitive for each number");
  }
  for (int32_t i = 0; i < op.n_outputs; ++i) {
    int32_t count = 1;
    if (op.outputs[i].is_list) {
      if (last_counts.first != op.name + request.text()) {
        fail(std::string(op.name) + ": the number of its results is not known yet",
             "MindSpore asked for types before shapes",
             "install MindSpore 2.10, with which the adapter is tested");
      }
      count = last_counts.second[static_cast<size_t>(i)];
    }
    results.insert(results.end(), static_cast<size_t>(count),
                   type_of(request, op.outputs[i], types));
  }
  return results;
}

}  // namespace
}  // namespace pto::mindspore_adapter

namespace adapter = pto::mindspore_adapter;
using adapter::PrimitiveAttributes;

extern "C" {

// Sets MindSpore's number of each element type, in the order of pto::DType.
void pto_mindspore_set_type_ids(const int32_t* ids) {
  std::memcpy(adapter::type_ids, ids, sizeof adapter::type_ids);
}

int pto_mindspore_oneInit(int*, int64_t**, const char**, PrimitiveAttributes* attributes) {
  return adapter::init(*attributes);
}
int pto_mindspore_manyInit(int*, int64_t**, const char**, PrimitiveAttributes* attributes) {
  return adapter::init(*attributes);
}

int pto_mindspore_one(int count, void** data, int* ranks, int64_t** shapes, const char** dtypes,
                      void*, void* attributes) {
  return adapter::launch(count, data, ranks, shapes, dtypes, attributes);
}
int pto_mindspore_many(int count, void** data, int* ranks, int64_t** shapes, const char** dtypes,
                       void*, void* attributes) {
  return adapter::launch(count, data, ranks, shapes, dtypes, attributes);
}

}  // extern "C"

// These return C++ types under C names, as MindSpore looks them up.
#define PTO_MINDSPORE_INFER extern "C" __attribute__((visibility("default")))

PTO_MINDSPORE_INFER std::vector<int64_t> pto_mindspore_oneInferShape(int* ranks, int64_t** shapes,
                                                                     PrimitiveAttributes* a) {
  return adapter::shapes_of(ranks, shapes, *a).at(0);
}
PTO_MINDSPORE_INFER std::vector<std::vector<int64_t>> pto_mindspore_manyInferShape(
    int* ranks, int64_t** shapes, PrimitiveAttributes* a) {
  return adapter::shapes_of(ranks, shapes, *a);
}
PTO_MINDSPORE_INFER int32_t pto_mindspore_oneInferType(std::vector<int32_t> types,
                                                       PrimitiveAttributes* a) {
  return adapter::types_of(types, *a).at(0);
}
PTO_MINDSPORE_INFER std::vector<int32_t> pto_mindspore_manyInferType(std::vector<int32_t> types,
                                                                     PrimitiveAttributes* a) {
  return adapter::types_of(types, *a);
}
