// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/aten/catalog.hpp"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "pto/adapters/torch/aten/places.hpp"
#include "pto/base/error_message.hpp"

namespace pto::torch_adapter {
namespace {

constexpr std::string_view kSpace = "aten::";

std::atomic<bool> is_forked = false;

// The list of names that restricts the surface.
struct NameList {
  std::string file;  // "": all names are there
  bool is_read = true;
  std::set<std::string> names;
  bool has(const std::string& name) const {
    return file.empty() || name == "copy_" || names.contains(name);
  }
};

const NameList& name_list() {
  static const NameList* const read = [] {
    auto* made = new NameList;
    const char* file = std::getenv("PTO_ATEN_NAMES");
    if (!file || !*file) return made;
    made->file = file;
    std::ifstream text(file);
    made->is_read = text.good();
    for (std::string name; text >> name;) made->names.insert(name);
    return made;
  }();
  return *read;
}

std::string full_name(const std::string& name) {
  return name.find("::") == std::string::npos ? std::string(kSpace) + name : name;
}
// "add" of "aten::add.out".
std::string base_of(const std::string& full) {
  const size_t begin = full.find("::") + 2;
  return full.substr(begin, full.find('.', begin) - begin);
}
std::string overload_of(const std::string& full) {
  const size_t dot = full.find('.', full.find("::"));
  return dot == std::string::npos ? "" : full.substr(dot + 1);
}

// "aten::add", of each operator that was there at the first question.
const std::set<std::string>& base_names() {
  static const auto* const all = [] {
    auto* made = new std::set<std::string>;
    for (const c10::OperatorName& one : c10::Dispatcher::singleton().getAllOpNames())
      made->insert(one.name);
    return made;
  }();
  return *all;
}

std::unique_ptr<pto_aten_operator> made_of(c10::OperatorHandle handle) {
  const c10::FunctionSchema& schema = handle.schema();
  const bool keeps_sizes = !handle.hasTag(at::Tag::inplace_view);
  auto made = std::make_unique<pto_aten_operator>(handle, c10::toString(schema));
  made->thunk = keeps_sizes ? find_thunk(handle.operator_name()) : nullptr;
  made->is_pointwise = handle.hasTag(at::Tag::pointwise);
  made->has_place = !schema.arguments().empty() && schema.arguments()[0].name() == "self" &&
                    base_names().contains(schema.name() + "_");
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& one = schema.arguments()[i];
    made->writes = made->writes || is_written(one);
    if (one.kwarg_only() && is_written(one)) made->outputs.push_back(i);
  }
  made->writes = made->writes && keeps_sizes;
  return made;
}

// Every operator that was asked for, and the names of all.
class Operators {
 public:
  Operators();
  const pto_aten_operator* find(const std::string& full) {
    const std::lock_guard lock(mutex_);
    const auto known = found_.find(full);
    if (known != found_.end()) return known->second.get();
    const auto handle = c10::Dispatcher::singleton().findSchema(
        {full.substr(0, full.find('.', full.find("::"))), overload_of(full)});
    if (!handle) return nullptr;
    return found_.emplace(full, made_of(*handle)).first->second.get();
  }
  const std::vector<std::string>& names() {
    const std::lock_guard lock(mutex_);
    if (names_.empty())
      for (const c10::OperatorName& one : c10::Dispatcher::singleton().getAllOpNames())
        if (one.name.starts_with(kSpace) && name_list().has(one.name.substr(kSpace.size())))
          names_.push_back(c10::toString(one));
    return names_;
  }
  void forget(const std::string& full) {
    const std::lock_guard lock(mutex_);
    const auto known = found_.find(full);
    if (known == found_.end()) return;
    known->second->is_gone = true;
    gone_.push_back(std::move(known->second));
    found_.erase(known);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<pto_aten_operator>> found_;
  std::vector<std::unique_ptr<pto_aten_operator>> gone_;  // who found one may have it still
  std::vector<std::string> names_;
};

Operators& operators() {
  static auto* all = new Operators;  // outlives what runs while the process ends
  return *all;
}

// Hears of operators that are taken back, as those of a library of Python that has ended.
class Listener final : public c10::OpRegistrationListener {
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    operators().forget(c10::toString(op.operator_name()));
  }
};

Operators::Operators() {
  pthread_atfork([] { operators().mutex_.lock(); }, [] { operators().mutex_.unlock(); },
                 [] {
                   operators().mutex_.unlock();
                   is_forked = true;
                 });
}

void listen() {
  static const auto* const listening = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()));
  (void)listening;
}

// How many letters have to be added, dropped or changed.
size_t distance(const std::string& one, const std::string& other) {
  std::vector<size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < one.size(); ++i) {
    size_t before = row[0]++;
    for (size_t j = 0; j < other.size(); ++j) {
      const size_t changed = before + (one[i] != other[j]);
      before = row[j + 1];
      row[j + 1] = std::min({changed, before + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string nearest(const std::string& name, const std::set<std::string>& known) {
  const std::string* best = nullptr;
  size_t least = name.size() / 3 + 1;
  for (const std::string& one : known)
    if (const size_t found = distance(name, one); found < least + (best == nullptr))
      best = &one, least = found;
  return best ? "did you mean " + *best + "?" : "no name is spelled alike";
}

}  // namespace

const pto_aten_operator* find_operator(const char* name) {
  struct Asked {
    std::string name;
    const pto_aten_operator* op = nullptr;
  };
  static thread_local std::array<Asked, 64> asked;
  const std::string_view text = name;
  Asked& last = asked[std::hash<std::string_view>()(text) % asked.size()];
  if (last.op && last.name == text && !last.op->is_gone.load(std::memory_order_relaxed))
    return last.op;
  listen();
  const std::string full = full_name(name);
  const bool is_restricted = full.starts_with(kSpace) && !name_list().has(base_of(full));
  const pto_aten_operator* const op = is_restricted ? nullptr : operators().find(full);
  if (op) last = {std::string(text), op};
  return op;
}

std::string why_unknown(const std::string& name) {
  const std::string full = full_name(name), base = base_of(full);
  const std::string space = full.substr(0, full.find("::") + 2);
  const std::string what = "PyTorch " TORCH_VERSION " has no operator " + name;
  if (space == kSpace && !name_list().is_read)
    return error_message(what, name_list().file + ", which PTO_ATEN_NAMES names, cannot be read",
                         "pass a file with a name a line, or unset PTO_ATEN_NAMES");
  if (space == kSpace && !name_list().has(base))
    return error_message("no operator " + base,
                         "PTO_ATEN_NAMES restricts them to the names in " + name_list().file +
                             "; " + nearest(base, name_list().names),
                         "add the name to that file, or unset PTO_ATEN_NAMES");
  std::set<std::string> names, overloads;
  std::string listed;
  for (const c10::OperatorName& one : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!one.name.starts_with(space)) continue;
    names.insert(one.name.substr(space.size()));
    if (one.name == space + base) overloads.insert(one.overload_name);
  }
  for (const std::string& one : overloads)
    listed += (listed.empty() ? "" : ", ") + base + (one.empty() ? "" : "." + one);
  if (!overloads.empty())
    return error_message(what, nearest(overload_of(full), overloads), "take one of " + listed);
  return error_message(what, nearest(base, names),
                       "a name has its overload, add.out; for headers written for another "
                       "PyTorch run: python -m pto adapters build torch");
}

void keep_to_own_threads() {
  if (is_forked.load(std::memory_order_relaxed) && is_forked.exchange(false))
    at::set_num_threads(1);
}

const std::vector<std::string>& operator_names() { return operators().names(); }

}  // namespace pto::torch_adapter
