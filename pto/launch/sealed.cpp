// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/sealed.hpp"

#include <sys/utsname.h>

#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "pto/abi/program.h"
#include "pto/base/error.hpp"
#include "pto/launch/library.hpp"

namespace pto {
namespace {

// --- the fields, in the order of the bytes -------------------------------------------------------

template <class Archive>
void fields(Archive& a, TensorSpec& t) {
  a(t.name, t.dtype, t.shape, t.strides, t.replaces, t.writes, t.is_read);
}

template <class Archive>
void fields(Archive& a, ScalarSpec& s) {
  a(s.name, s.dtype);
}

template <class Archive>
void fields(Archive& a, ProgramSpec::Guard& g) {
  a(g.a, g.b, g.because, g.kind, g.location);
}

template <class Archive>
void fields(Archive& a, LaunchSpec& l) {
  a(l.function, l.tensors, l.items, l.bytes, l.quantum, l.is_elementwise, l.is_program);
}

template <class Archive>
void fields(Archive& a, PackedSpec& p) {
  a(p.input, p.depth_axis, p.col_axis, p.precision);
}

template <class Archive>
void fields(Archive& a, ProgramSpec& s) {
  a(s.name, s.inputs, s.outputs, s.temporaries, s.scalars, s.guards, s.launches, s.packed);
}

template <class Archive>
void fields(Archive& a, SealedNumber& n) {
  a(n.is_fixed, n.bits);
}

template <class Archive>
void fields(Archive& a, SealedProgram& p) {
  a(p.machine, p.target, p.text, p.spec, p.numbers, p.object);
}

uint64_t last_of(DType) { return kDTypes - 1; }
uint64_t last_of(StrideClass) { return static_cast<uint64_t>(StrideClass::Any); }
uint64_t last_of(GuardKind) { return static_cast<uint64_t>(GuardKind::Holds); }
uint64_t last_of(Target) { return static_cast<uint64_t>(Target::Avx512); }

// --- numbers are 8 bytes, texts and lists begin with their length --------------------------------

class Writer {
 public:
  template <class... T>
  void operator()(T&... values) {
    (put(values), ...);
  }
  std::string bytes;

 private:
  template <class T>
  void put(T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      const auto number = static_cast<uint64_t>(value);
      bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
    } else {
      fields(*this, value);
    }
  }
  void put(std::string& value) {
    size_t size = value.size();
    put(size);
    bytes += value;
  }
  void put(Dim& value) {
    std::string own = text(value);
    put(own);
  }
  template <class T>
  void put(std::vector<T>& values) {
    size_t size = values.size();
    put(size);
    for (T& value : values) put(value);
  }
};

class Reader {
 public:
  Reader(const std::string& shown, const char** rest, const char* end)
      : shown_(shown), rest_(*rest), end_(end) {}

  template <class... T>
  void operator()(T&... values) {
    (take(values), ...);
  }

  [[noreturn]] void refuse() const {
    fail({shown_ + " holds a program that pto did not write",
          "its digest fits, but its fields have other contents", "package the function again"});
  }

 private:
  template <class T>
  void take(T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      uint64_t number = 0;
      std::memcpy(&number, piece(sizeof number).data(), sizeof number);
      if constexpr (std::is_enum_v<T>)
        if (number > last_of(T())) refuse();
      value = static_cast<T>(number);
    } else {
      fields(*this, value);
    }
  }
  void take(std::string& value) { value = piece(length(1)); }
  void take(Dim& value) {
    std::string text;
    take(text);
    value = parse_dim(text);
  }
  template <class T>
  void take(std::vector<T>& values) {
    values.resize(length(sizeof(uint64_t)));
    for (T& value : values) take(value);
  }

  // Reads a number of elements that take at least `bytes` bytes each.
  size_t length(size_t bytes) {
    size_t length = 0;
    take(length);
    if (length > static_cast<size_t>(end_ - rest_) / bytes) refuse();
    return length;
  }
  std::string_view piece(size_t size) {
    if (size > static_cast<size_t>(end_ - rest_)) refuse();
    const char* const begin = rest_;
    rest_ += size;
    return {begin, size};
  }

  const std::string& shown_;
  const char*& rest_;
  const char* const end_;
};

}  // namespace

std::string machine_name() {
  utsname about{};
  uname(&about);
  return about.machine;
}

std::string seal(const SealedProgram& program) {
  Writer writer;
  uint32_t seal = kSealVersion, abi = PTO_ABI_VERSION, services = PTO_PROGRAM_VERSION;
  SealedProgram own = program;
  writer(seal, abi, services, own);
  return std::move(writer.bytes);
}

SealedProgram unseal(const std::string& shown, const char** rest, const char* end) {
  Reader reader(shown, rest, end);
  uint32_t seal = 0, abi = 0, services = 0;
  reader(seal, abi, services);
  if (seal != kSealVersion || abi != PTO_ABI_VERSION || services != PTO_PROGRAM_VERSION) {
    const auto versions = [](uint32_t a, uint32_t b, uint32_t c) {
      return std::to_string(a) + "." + std::to_string(b) + "." + std::to_string(c);
    };
    fail({shown + " holds a program of version " + versions(seal, abi, services),
          "this pto runs version " + versions(kSealVersion, PTO_ABI_VERSION, PTO_PROGRAM_VERSION) +
              " (its form, the ABI of kernels, that of programs)",
          "package the function with this version"});
  }
  SealedProgram program;
  reader(program);
  return program;
}

void check_machine(const std::string& shown, const SealedProgram& program,
                   const std::string& machine, Target best) {
  if (program.machine != machine) {
    fail({shown + " holds code for " + program.machine, "this machine is called " + machine,
          "package the function on such a machine"});
  }
  if (program.target > best) {
    fail({shown + " needs " + std::string(name(program.target)),
          "this CPU has no more than " + std::string(name(best)),
          "package the function with PTO_TARGET=" + std::string(name(best))});
  }
}

std::shared_ptr<const Program> load_program(const SealedProgram& program) {
  std::vector<pto_kernel> functions;
  std::shared_ptr<const Library> library;
  if (!program.spec.launches.empty()) library = load_object(program.spec.name, program.object);
  for (const LaunchSpec& launch : program.spec.launches)
    functions.push_back(library->function(launch.function));
  return std::make_shared<Program>(program.spec, std::move(functions),
                                   std::const_pointer_cast<Library>(library));
}

}  // namespace pto
