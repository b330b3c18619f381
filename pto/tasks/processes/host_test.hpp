// SPDX-License-Identifier: Apache-2.0
// Host: a host engine for tests, whose worker is the test's own executable.
//
//     Host host(2);
//     Matrix a = host.matrix(6, 8);
//     host.begin_run({});
//     host.task("mix", 0, {a.as(Access::Write)}, 2);      // programs: host_engine_test.cpp
//
// Thread safety: none.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "pto/tasks/processes/host_engine.hpp"

namespace pto {

inline int64_t mixed(int64_t a, int64_t b) {
  return int64_t((uint64_t(a) ^ (uint64_t(b) + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu >> 7);
}

// Sets the first tensor, element by element, to a mix of all tensors and the scalar; any strides.
template <class Tensors>
void mix(const Tensors& tensors, uint64_t scalar) {
  int64_t hash = int64_t(scalar);
  const auto each = [](const pto_tensor& t, const auto& visit) {
    for (int64_t i = 0; i < t.sizes[0]; ++i)
      for (int64_t j = 0; j < t.sizes[1]; ++j)
        visit(static_cast<int64_t*>(t.data)[i * t.strides[0] + j * t.strides[1]]);
  };
  for (size_t k = 1; k < tensors.size(); ++k)
    each(tensors[k], [&](int64_t& x) { hash = mixed(hash, x); });
  each(tensors[0], [&](int64_t& x) { x = hash = mixed(hash, (scalar & 1) != 0 ? x : 0); });
}

inline void sleep_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// --- the host ------------------------------------------------------------------------------------

inline HostOptions options_of(int devices) {
  HostOptions options;
  for (int i = 0; i < devices; ++i) options.devices.push_back(10 + i);
  options.worker = {std::filesystem::read_symlink("/proc/self/exe"), "--worker"};
  options.memory_bytes = 64 << 20;
  return options;
}

struct Matrix {  // of int64
  std::shared_ptr<SharedBlock> block;
  int64_t sizes[2], strides[2], offset = 0;

  HostTensor as(Access access) const {
    pto_tensor view{};
    view.data = reinterpret_cast<int64_t*>(block->data()) + offset;
    view.sizes = sizes;
    view.strides = strides;
    view.rank = 2;
    view.type_bits = 64;
    view.type_lanes = 1;
    return {block, access, view};
  }
  int64_t& at(int64_t i) const { return reinterpret_cast<int64_t*>(block->data())[i]; }
};

class Host : public HostEngine {
 public:
  explicit Host(int devices, HostOptions (*options)(int) = options_of)
      : HostEngine(options(devices)) {}

  Matrix matrix(int64_t rows, int64_t columns) {
    return {heap()->allocate(rows * columns * 8), {rows, columns}, {columns, 1}};
  }
  uint32_t program(const std::string& name) {
    uint32_t& number = programs_[name];
    if (number == 0) {
      ProgramImage image;
      image.name = name;
      number = add_program(image);
    }
    return number;
  }
  TaskId task(const std::string& name, int device, const std::vector<HostTensor>& tensors,
              uint64_t scalar = 0, const std::vector<TaskId>& after = {}) {
    return group(name, {device}, tensors, scalar, after);
  }
  TaskId group(const std::string& name, const std::vector<int>& devices,
               const std::vector<HostTensor>& tensors, uint64_t scalar = 0,
               const std::vector<TaskId>& after = {}) {
    const std::vector<uint64_t> scalars{scalar};
    std::vector<HostMember> members;
    for (int device : devices) members.push_back({device, tensors, scalars});
    HostTaskSpec spec{};
    spec.program = program(name);
    spec.name = name;
    spec.members = members;
    spec.after = after;
    spec.site = "here.cpp:1";
    return submit(spec);
  }
  TaskFailure failure() {
    try {
      end_run();
    } catch (const HostError& error) {
      text = error.what();
      return error.failure;
    }
    ADD_FAILURE() << "nothing failed";
    return {};
  }
  std::string text;

 private:
  std::map<std::string, uint32_t> programs_;
};

}  // namespace pto
