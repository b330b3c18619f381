// SPDX-License-Identifier: Apache-2.0
// Prints nanoseconds of add.out on few floats, called in several ways, as "NAME MEDIAN" lines: what
// a call costs beside PyTorch's own. bench/aten_calls.py builds and runs it.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <pto/aten/functions.hpp>
#include <string>
#include <vector>

namespace {

constexpr int kFloats = 4, kCalls = 2000;

struct Way {
  std::string name;
  std::function<void(int call)> run;
  std::vector<double> ns = {};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void sample(Way& way) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) way.run(i);
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  way.ns.push_back(spent.count() / kCalls);
}

// Puts a front before add.out and says how to turn it on and off, for all calls of the process.
std::function<void(bool)> front_of_add_out(const char* path) {
  void* const part = dlopen(path, RTLD_NOW);
  const auto count = reinterpret_cast<int32_t (*)()>(dlsym(part, "pto_aten_front_count"));
  const auto name =
      reinterpret_cast<const char* (*)(int32_t, int32_t)>(dlsym(part, "pto_aten_front_name"));
  const auto install =
      reinterpret_cast<const char* (*)(int32_t)>(dlsym(part, "pto_aten_front_install"));
  const auto turn =
      reinterpret_cast<void (*)(const uint8_t*)>(dlsym(part, "pto_aten_front_process"));
  std::vector<uint8_t> on(static_cast<size_t>(count()), 1);
  for (int32_t i = 0; i < count(); ++i)
    if (std::string(name(i, 0)) == "aten::add" && std::string(name(i, 1)) == "out") install(i);
  return [turn, on](bool is_on) { turn(is_on ? on.data() : nullptr); };
}

// Prints what a call of PyTorch's takes that a front refuses for its strides: by its function, and
// boxed.
void print_refused(const char* path, int rounds) {
  const at::Tensor x = at::ones(kFloats), y = at::ones({kFloats, 2}).select(1, 0);
  at::Tensor out = at::empty(kFloats);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "out");
  const auto boxed = [&](int) {
    torch::jit::Stack stack{x, y, 1, out};
    op.callBoxed(stack);
  };
  const auto typed = [&](int) { at::add_out(out, x, y); };
  std::vector<Way> before, beside, refused;
  for (auto* ways : {&before, &beside, &refused}) {
    const char* when = ways == &before   ? "before_enable"
                       : ways == &beside ? "beside_a_front"
                                         : "refused";
    ways->push_back({std::string("add_out_") + when, typed});
    ways->push_back({std::string("boxed_") + when, boxed});
  }
  const auto sample_all = [](std::vector<Way>& ways) { std::ranges::for_each(ways, sample); };
  for (int round = 0; round < rounds; ++round) sample_all(before);
  const auto turn = front_of_add_out(path);
  for (int round = 0; round < rounds; ++round)
    for (const bool is_on : {false, true}) turn(is_on), sample_all(is_on ? refused : beside);
  for (const auto& ways : {before, beside, refused})
    for (const Way& way : ways) std::printf("%s %.1f\n", way.name.c_str(), median(way.ns));
}

}  // namespace

int main(int, char** arguments) {
  const int rounds = std::atoi(arguments[2]);
  const pto::aten::Library torch(arguments[1]);
  float x[2][kFloats] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, out[2][kFloats];
  const std::vector<int64_t> sizes = {kFloats};
  std::vector<pto::aten::Tensor> ours, results;
  std::vector<at::Tensor> ready, places;
  for (int i = 0; i < 2; ++i) {
    ours.emplace_back(x[i], sizes), results.emplace_back(out[i], sizes);
    ready.push_back(at::from_blob(x[i], kFloats)), places.push_back(at::from_blob(out[i], kFloats));
  }
  std::vector<Way> ways = {
      {"at::add_out", [&](int i) { at::add_out(places[i & 1], ready[i & 1], ready[0], 2); }},
      {"from_blob",
       [&](int i) {
         at::Tensor place = at::from_blob(out[i & 1], kFloats);
         at::add_out(place, at::from_blob(x[i & 1], kFloats), at::from_blob(x[0], kFloats), 2);
       }},
      {"below_autograd",
       [&](int i) {
         const at::AutoDispatchBelowADInplaceOrView below;
         at::add_out(places[i & 1], ready[i & 1], ready[0], 2);
       }},
      {"pto::aten::add_out",
       [&](int i) { pto::aten::add_out(torch, ours[i & 1], ours[0], 2, results[i & 1]); }},
      {"Library::call",
       [&](int i) {
         torch.call("add.out", {ours[i & 1], ours[0], 2, results[i & 1]});
       }},
  };
  for (Way& way : ways) {
    out[1][3] = 0;
    way.run(1);
    if (out[1][3] != x[1][3] + 2 * x[0][3]) std::printf("WRONG: %s\n", way.name.c_str());
  }
  for (int round = 0; round < rounds; ++round)
    for (Way& way : ways) sample(way);
  for (const Way& way : ways) std::printf("%s %.1f\n", way.name.c_str(), median(way.ns));
  print_refused(arguments[3], rounds);
  return 0;
}
