// SPDX-License-Identifier: Apache-2.0
// libpto's part of packages: abi/package.h.
#include "pto/abi/package.h"

#include <algorithm>
#include <array>

#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"
#include "pto/base/text.hpp"
#include "pto/launch/call.hpp"
#include "pto/launch/launch.hpp"
#include "pto/launch/package.hpp"
#include "pto/launch/staging.hpp"
#include "pto/launch/write_order.hpp"

struct pto_program {
  pto::ProgramPackage package;
  std::string text;
};

namespace pto {
namespace {

// One call: its tensors, those that the function takes first, and the variant that serves them.
class PackagedCall {
 public:
  // `may_lack_results`: the tensors of results may be missing.
  PackagedCall(const ProgramPackage& package, const pto_args& args, bool may_lack_results);

  const ProgramSpec& spec() const { return variant_->program->spec(); }
  const Call& call() const { return *call_; }
  void run();

 private:
  void read(const pto_tensor& tensor);
  void choose(const pto_args& args, bool may_lack_results);
  void bind(const pto_args& args);
  std::string given(const pto_args& args) const;
  void* memory_of(size_t output, size_t target);
  void check_target(size_t target, bool is_written) const;
  std::string tensor_text(size_t tensor) const;

  const ProgramPackage& package_;
  std::vector<pto_tensor_ref> tensors_;
  std::vector<bool> is_read_only_, is_copied_;
  const ProgramPackage::Variant* variant_ = nullptr;
  Staging staging_;
  std::unique_ptr<Call> call_;
};

std::string class_text(const pto_tensor_ref& tensor) {
  return std::string(name(dtype_of(tensor))) +
         text(std::span(tensor.sizes, static_cast<size_t>(tensor.rank)));
}

PackagedCall::PackagedCall(const ProgramPackage& package, const pto_args& args,
                           bool may_lack_results)
    : package_(package), staging_(package.shown().c_str()) {
  if (args.abi_version != PTO_ABI_VERSION)
    fail({package.shown() + ": the arguments are of version " + std::to_string(args.abi_version) +
              " of the ABI",
          "this libpto has version " + std::to_string(PTO_ABI_VERSION),
          "set args.abi_version = PTO_ABI_VERSION, and compile with its headers"});
  for (int32_t i = 0; i < args.n_tensors; ++i) read(args.tensors[i]);
  is_copied_.resize(tensors_.size());
  choose(args, may_lack_results);
  bind(args);
}

void PackagedCall::read(const pto_tensor& tensor) {
  const auto place = [&] {
    return package_.shown() + ": tensor " + text(int64_t(tensors_.size()));
  };
  const auto dtype = from_dlpack(tensor.type_code, tensor.type_bits, tensor.type_lanes);
  if (!dtype)
    fail({place() + " has the type code " + std::to_string(tensor.type_code) + ", " +
              std::to_string(tensor.type_bits) + " bits, " + std::to_string(tensor.type_lanes) +
              " lanes",
          "codes are DLPack's (2 is a float), and elements have one lane",
          "set type_code, type_bits and type_lanes"},
         ErrorKind::Type);
  if (tensor.rank < 0 || tensor.rank > PTO_MAX_RANK)
    fail({place() + " has " + std::to_string(tensor.rank) + " axes",
          "a tensor has at most " + std::to_string(PTO_MAX_RANK), "reshape it"});
  if (tensor.sizes == nullptr && tensor.rank > 0)
    fail({place() + " has " + std::to_string(tensor.rank) + " axes, but its sizes are null",
          "an axis has a size", "point sizes at rank numbers"});
  const auto* const negative =
      std::find_if(tensor.sizes, tensor.sizes + tensor.rank, [](int64_t size) { return size < 0; });
  if (negative != tensor.sizes + tensor.rank)
    fail({place() + " has the size " + std::to_string(*negative) + " on axis " +
              std::to_string(negative - tensor.sizes),
          "a size is a count of elements", "pass 0 or more"});
  tensors_.push_back(
      {tensor.data, tensor.sizes, tensor.strides, tensor.rank, static_cast<int32_t>(*dtype)});
  is_read_only_.push_back((tensor.flags & PTO_TENSOR_READ_ONLY) != 0);
}

// Puts lines below a line of an error.
std::string indented(const std::string& lines) {
  std::string all;
  for (size_t at = 0; at != std::string::npos;) {
    const size_t end = lines.find('\n', at);
    all += "\n    " + lines.substr(at, end - at);
    at = end == std::string::npos ? end : end + 1;
  }
  return all;
}

size_t results_of(const ProgramSpec& spec) {
  return static_cast<size_t>(std::count_if(spec.outputs.begin(), spec.outputs.end(),
                                           [](const TensorSpec& o) { return o.writes < 0; }));
}

void PackagedCall::choose(const pto_args& args, bool may_lack_results) {
  const auto has_numbers = [&args](const ProgramPackage::Variant& variant) {
    if (variant.numbers.size() != static_cast<size_t>(args.n_scalars)) return false;
    for (size_t i = 0; i < variant.numbers.size(); ++i)
      if (variant.numbers[i].is_fixed && variant.numbers[i].bits != args.scalars[i]) return false;
    return true;
  };
  std::vector<TensorClass> classes;
  for (size_t n = 0; n <= std::min<size_t>(tensors_.size(), PTO_MAX_TENSORS); ++n) {
    const size_t results = tensors_.size() - n;
    variant_ = package_.choose(classes, [&](const ProgramPackage::Variant& variant) {
      const bool fits = results == results_of(variant.program->spec());
      return (fits || (may_lack_results && results == 0)) && has_numbers(variant);
    });
    if (variant_ != nullptr) return;
    if (n < tensors_.size()) classes.push_back(class_of(tensors_[n]));
  }
  fail({package_.shown() + ": no variant serves the call (" + given(args) + ")",
        "element types, ranks, which sizes are 1 and constants are those of:" +
            indented(package_.describe()),
        "pass such tensors, those that the function takes and then its results; or package the "
        "function with an example of this call"},
       ErrorKind::Type);
}

std::string PackagedCall::given(const pto_args& args) const {
  std::string all = joined(tensors_, ", ", class_text);
  if (args.n_scalars != 0) all += "; " + std::to_string(args.n_scalars) + " scalars";
  for (int32_t i = 0; i < args.n_scalars; ++i)
    all += (i == 0 ? ": " : ", ") + std::to_string(static_cast<int64_t>(args.scalars[i]));
  return all;
}

// Checks sizes. A tensor that the code cannot take as it lies is copied when the call runs.
void PackagedCall::bind(const pto_args& args) {
  std::vector<pto_tensor_ref> inputs(tensors_.begin(),
                                     tensors_.begin() + static_cast<int64_t>(spec().inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!wants_copy(spec().inputs[i], class_of(inputs[i]).strides)) continue;
    inputs[i].strides = nullptr;
    is_copied_[i] = true;
  }
  std::vector<uint64_t> scalars;
  for (size_t i = 0; i < variant_->numbers.size(); ++i)
    if (!variant_->numbers[i].is_fixed) scalars.push_back(args.scalars[i]);
  call_ = std::make_unique<Call>(*variant_->program, inputs, scalars);
}

std::string PackagedCall::tensor_text(size_t tensor) const {
  return package_.shown() + ": tensor " + std::to_string(tensor) + ", " +
         class_text(tensors_[tensor]) + ",";
}

void PackagedCall::check_target(size_t target, bool is_written) const {
  const pto_tensor_ref& to = tensors_[target];
  if (is_read_only_[target])
    fail({tensor_text(target) + " is read-only", "the function writes it",
          "pass memory that can be written"});
  if (to.strides != nullptr && !is_injective(to.rank, to.sizes, to.strides))
    fail({tensor_text(target) + " has elements that share memory",
          "an element would get the values of several", "pass memory of its own"});
  for (size_t i = 0; i < tensors_.size(); ++i) {
    // A call reads all of a tensor that it only takes before this one gets its new elements.
    const bool is_taken = is_written && i < spec().inputs.size() &&
                          std::none_of(spec().outputs.begin(), spec().outputs.end(),
                                       [i](const auto& o) { return o.writes == int(i); });
    if (i != target && !is_taken && overlap(address_range(to), address_range(tensors_[i])))
      fail({tensor_text(target) + " shares memory with tensor " + std::to_string(i),
            "elements might be overwritten before they are read, or twice",
            "pass memory of its own"});
  }
}

// Returns where the code writes an output.
void* PackagedCall::memory_of(size_t output, size_t target) {
  static char nothing;  // the memory of a tensor without elements
  const pto_tensor_ref& to = tensors_[target];
  const bool is_written = spec().outputs[output].writes >= 0;
  check_target(target, is_written);
  const std::span inputs = std::span(tensors_).first(spec().inputs.size());
  const bool is_dense = is_contiguous(to.rank, to.sizes, to.strides);
  const bool is_in_place = is_written ? may_write_in_place(spec(), output, inputs) : is_dense;
  if (!is_in_place) return staging_.in_place_of(to);
  if (!is_dense) call_->lay_over_input(output);
  return to.data != nullptr ? to.data : &nothing;
}

void PackagedCall::run() {
  std::vector<void*> inputs, outputs;
  std::vector<AddressRange> written;
  for (const TensorSpec& output : spec().outputs)
    if (output.writes >= 0)
      written.push_back(address_range(tensors_[static_cast<size_t>(output.writes)]));
  const WriteOrder order(written);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].data == nullptr && element_bytes(tensors_[i]) != 0)
      fail({tensor_text(i) + " has no memory", "its data is null", "pass its address"});
    if (i < spec().inputs.size())
      inputs.push_back(is_copied_[i] ? staging_.copy_of(tensors_[i]) : tensors_[i].data);
  }
  size_t next = spec().inputs.size();
  for (size_t i = 0; i < spec().outputs.size(); ++i) {
    const TensorSpec& output = spec().outputs[i];
    const size_t target = output.writes >= 0 ? static_cast<size_t>(output.writes) : next++;
    const pto_tensor_ref& to = tensors_[target];
    const auto sizes = call_->output_sizes(static_cast<int>(i));
    if (dtype_of(to) != output.dtype ||
        !std::equal(sizes.begin(), sizes.end(), to.sizes, to.sizes + to.rank))
      fail({tensor_text(target) + " is to hold " + std::string(name(output.dtype)) + text(sizes),
            "results are written without conversion",
            "ask pto_program_results() for types and sizes"});
    outputs.push_back(memory_of(i, target));
  }
  call_->run(inputs, outputs);
  staging_.finish();
}

template <class T>
const T& required(const T* given, const char* what) {
  if (given != nullptr) return *given;
  fail({std::string(what) + " is null", "the function reads it",
        "pass its address; of a package that pto_program_open refused, pto_last_error() says why"});
}

// Runs `work`; what it throws becomes the text of pto_last_error(), and `failed` the result.
template <class T, class Work>
T reported(T failed, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return failed;
  }
}

}  // namespace
}  // namespace pto

pto_program* pto_program_open(const char* path) { return pto_program_open_function(path, ""); }

pto_program* pto_program_open_function(const char* path, const char* function) {
  return pto::reported<pto_program*>(nullptr, [&] {
    pto::ProgramPackage package = pto::ProgramPackage::read(
        &pto::required(path, "pto_program_open: the path"),
        &pto::required(function, "pto_program_open_function: the name of the function"));
    std::string text = package.describe();
    return new pto_program{std::move(package), std::move(text)};
  });
}

void pto_program_close(pto_program* program) { delete program; }

const char* pto_program_describe(const pto_program* program) {
  return pto::reported<const char*>(nullptr, [&] {
    return pto::required(program, "pto_program_describe: the program").text.c_str();
  });
}

int32_t pto_program_results(const pto_program* program, const pto_args* args, pto_result* results,
                            int32_t room) {
  return pto::reported<int32_t>(-1, [&] {
    const pto::PackagedCall found(
        pto::required(program, "pto_program_results: the program").package,
        pto::required(args, "pto_program_results: args"),
        /*may_lack_results=*/true);
    int32_t count = 0;
    for (size_t i = 0; i < found.spec().outputs.size(); ++i) {
      if (found.spec().outputs[i].writes >= 0) continue;
      const auto sizes = found.call().output_sizes(static_cast<int>(i));
      const pto::DLPackType type = pto::dlpack_type(found.spec().outputs[i].dtype);
      pto_result result{{},
                        static_cast<int32_t>(sizes.size()),
                        type.code,
                        type.bits,
                        found.call().output_bytes(static_cast<int>(i))};
      std::copy(sizes.begin(), sizes.end(), result.sizes);
      if (count < room) results[count] = result;
      ++count;
    }
    return count;
  });
}

int32_t pto_program_run(const pto_program* program, const pto_args* args) {
  return pto::reported<int32_t>(-1, [&] {
    pto::PackagedCall(pto::required(program, "pto_program_run: the program").package,
                      pto::required(args, "pto_program_run: args"), /*may_lack_results=*/false)
        .run();
    return 0;
  });
}
