// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/kernel_table.hpp"

#include <pthread.h>

#include <mutex>
#include <new>

#include "pto/launch/host_lock.hpp"

namespace pto {
namespace {

[[noreturn]] void fail_owner(uint64_t owner) {
  fail({"kernel owner " + std::to_string(owner) + " is unknown",
        "programs belong to an owner that new_owner() named and erase_owner() has not removed",
        "keep the function or operator alive while it is called"},
       ErrorKind::Runtime);
}

}  // namespace

uint64_t KernelTable::new_owner(std::string name) {
  const std::unique_lock lock(mutex_);
  owners_[next_owner_].name = std::move(name);
  return next_owner_++;
}

void KernelTable::erase_owner(uint64_t owner) {
  std::map<uint64_t, Owner>::node_type gone;  // programs unload outside of the lock
  const std::unique_lock lock(mutex_);
  gone = owners_.extract(owner);
  made_.notify_all();
}

const KernelTable::Entry* KernelTable::find(uint64_t owner, const Signature& signature) const {
  const std::shared_lock lock(mutex_);
  const auto at = owners_.find(owner);
  if (at == owners_.end()) return nullptr;
  const auto entry = at->second.entries.find(signature);
  return entry == at->second.entries.end() ? nullptr : entry->second.get();
}

// Returns the finished entry, or null after reserving the key for the caller to make.
const KernelTable::Entry* KernelTable::claim(uint64_t owner, const Signature& signature) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto at = owners_.find(owner);
    if (at == owners_.end()) fail_owner(owner);
    const auto [entry, reserved] = at->second.entries.try_emplace(signature);
    if (reserved) return nullptr;
    if (entry->second != nullptr) return entry->second.get();
    made_.wait(lock);
  }
}

const KernelTable::Entry& KernelTable::entry(uint64_t owner, const Signature& signature,
                                             const Make& make) {
  if (const Entry* entry = find(owner, signature)) return *entry;
  const GivenUpLock given_up;
  if (const Entry* entry = claim(owner, signature)) return *entry;
  std::shared_ptr<const Program> program;
  try {
    program = make();
    PTO_ASSERT(program != nullptr);
  } catch (...) {
    const std::unique_lock lock(mutex_);
    if (const auto at = owners_.find(owner); at != owners_.end())
      at->second.entries.erase(signature);
    made_.notify_all();
    throw;
  }
  const std::unique_lock lock(mutex_);
  const auto at = owners_.find(owner);
  made_.notify_all();
  if (at == owners_.end()) fail_owner(owner);
  auto& slot = at->second.entries[signature];
  slot = std::make_unique<const Entry>(Entry{owner, signature, std::move(program)});
  return *slot;
}

size_t KernelTable::size() const {
  const std::shared_lock lock(mutex_);
  size_t total = 0;
  for (const auto& [id, owner] : owners_) {
    for (const auto& [signature, entry] : owner.entries) total += entry != nullptr;
  }
  return total;
}

std::vector<std::string> KernelTable::describe() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::string> lines;
  for (const auto& [id, owner] : owners_) {
    size_t made = 0;
    for (const auto& [signature, entry] : owner.entries) made += entry != nullptr;
    lines.push_back(owner.name + ": " + std::to_string(made));
  }
  return lines;
}

// A lock and a condition remember the threads that waited for them, so the child has new ones.
void KernelTable::unlock_in_child() {
  for (auto& [id, owner] : owners_)
    std::erase_if(owner.entries, [](const auto& entry) { return entry.second == nullptr; });
  new (&made_) std::condition_variable_any;
  new (&mutex_) std::shared_mutex;
}

KernelTable& kernel_table() {
  static KernelTable* const table = [] {
    pthread_atfork([] { kernel_table().lock_for_fork(); },
                   [] { kernel_table().unlock_in_parent(); },
                   [] { kernel_table().unlock_in_child(); });
    return new KernelTable;
  }();
  return *table;
}

}  // namespace pto
