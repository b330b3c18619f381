// SPDX-License-Identifier: Apache-2.0
// KernelTable: the compiled programs of a process, by owner and signature.
//
//     const uint64_t softmax = kernel_table().new_owner("softmax");
//     const KernelTable::Entry& found =
//         kernel_table().entry(softmax, signature, [&] { return compile(trace(signature)); });
//
// An owner is whatever makes programs: a traced function or an operator.
//
// Invariant: one program a key; `make` runs once a key even when several threads ask at once,
// without a lock of the table held; a make that throws leaves no entry, and the next caller tries
// again.
// Thread safety: all functions may be called from any thread; a LastKernel too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "pto/launch/program.hpp"
#include "pto/launch/signature.hpp"

namespace pto {

class KernelTable {
 public:
  using Make = std::function<std::shared_ptr<const Program>()>;

  // A caller may keep it: it stays where it is until its owner is erased.
  struct Entry {
    uint64_t owner;
    Signature signature;
    std::shared_ptr<const Program> program;
  };

  uint64_t new_owner(std::string name);  // names need not differ; ids start at 1

  // Forgets the owner's entries, so no caller of find() or entry() may be running. Who copied the
  // shared_ptr of an entry keeps its program alive.
  void erase_owner(uint64_t owner);

  // Returns the entry, or null.
  const Entry* find(uint64_t owner, const Signature& signature) const;

  // Returns the entry, and makes it when it is missing. Throws what `make` throws, and pto::Error
  // for an unknown owner.
  const Entry& entry(uint64_t owner, const Signature& signature, const Make& make);

  size_t size() const;  // of all owners

  // Prints "softmax: 2" for each owner, by id.
  std::vector<std::string> describe() const;

  // Keep the table whole while the process forks: before it, and after it in parent and child. The
  // child forgets what threads were making, since it does not have them.
  void lock_for_fork() { mutex_.lock(); }
  void unlock_in_parent() { mutex_.unlock(); }
  void unlock_in_child();

 private:
  struct Hash {
    size_t operator()(const Signature& signature) const { return signature.hash(); }
  };
  struct Owner {
    std::string name;
    std::unordered_map<Signature, std::unique_ptr<const Entry>, Hash>
        entries;  // null: in the making
  };
  const Entry* claim(uint64_t owner, const Signature& signature);

  mutable std::shared_mutex mutex_;
  std::condition_variable_any made_;
  std::map<uint64_t, Owner> owners_;
  uint64_t next_owner_ = 1;
};

// Returns the table of the process, which is never destroyed.
KernelTable& kernel_table();

// Keeps the last kernel of one caller, which spares the look-up while owner and signature stay the
// same. erase_owner() may run only when nobody uses it any more.
class LastKernel {
 public:
  const Program& get(uint64_t owner, const Signature& signature, const KernelTable::Make& make) {
    const KernelTable::Entry* last = last_.load(std::memory_order_acquire);
    if (last == nullptr || last->owner != owner || !(last->signature == signature)) [[unlikely]] {
      last = &kernel_table().entry(owner, signature, make);
      last_.store(last, std::memory_order_release);
    }
    return *last->program;
  }

 private:
  std::atomic<const KernelTable::Entry*> last_{nullptr};
};

}  // namespace pto
