// SPDX-License-Identifier: Apache-2.0
// Cache: compiled objects on disk, named by the digest of everything that they were made from.
//
//     Cache cache(settings().cache_directory);
//     auto path = cache.find(name);                          // verified, ready to load, or nothing
//     auto lock = cache.lock(name, interrupted, seconds);    // one process compiles it
//     path = cache.insert(name, object_file);                // sealed, moved into place
//
// An entry is a shared object, or a parsed header (".gch"), with a trailer: the digest of its name
// and content. An entry does not verify and counts as missing where it is truncated, changed,
// renamed, or written by a user who is neither this one nor root, so a write that a crash cut short
// needs no fsync.
//
// Invariant: entries appear by rename, whole. The holder of an entry's lock is alone with it in all
// running processes, and a holder that dies frees it.
// Thread safety: all functions may be called from any thread and process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace pto {

// Returns the path of the entry `name` in the folder, if it verifies.
std::optional<std::string> find_entry(const std::string& directory, const std::string& name,
                                      std::string_view suffix = ".so");

class Cache {
 public:
  // Makes a missing folder; throws std::system_error where it cannot be written.
  explicit Cache(std::string directory);

  const std::string& directory() const { return directory_; }

  // Returns the path of the entry `name` ("softmax-<digest>"), if it verifies.
  std::optional<std::string> find(const std::string& name, std::string_view suffix = ".so") const {
    return find_entry(directory_, name, suffix);
  }

  // Moves `object` here as the entry `name` and returns its path; throws std::system_error.
  std::string insert(const std::string& name, const std::string& object,
                     std::string_view suffix = ".so") const;

  // Waits for the lock of an entry; the result frees it when it dies. Throws Interrupted, and
  // std::system_error where the lock's file cannot be opened. It returns without the lock where the
  // file system knows no locks, where the holder is stopped (Ctrl-Z), and after `seconds`, which no
  // holder needs: then two may compile, and the last rename wins with equal content. A caller that
  // waits for 3 s warns of what it waits for.
  std::shared_ptr<void> lock(const std::string& name, const std::function<bool()>& interrupted,
                             double seconds) const;

  // Removes, at most once an hour or with `now` at once, files of killed processes; where the
  // entries take more than `bytes_max`, also the least recently used down to 80 % of it.
  void sweep(int64_t bytes_max, bool now = false) const;

 private:
  std::string directory_;
};

}  // namespace pto
