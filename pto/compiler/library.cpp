// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <vector>

#include "pto/compiler/cache.hpp"
#include "pto/compiler/file.hpp"
#include "pto/compiler/sha256.hpp"

namespace pto {
namespace {

namespace fs = std::filesystem;

using Stop = std::function<bool()>;

// Returns the digest, by relative path and content, of the headers that compiled text may include:
// those in pto/ itself, and in the rooms that kernels and orchestrations see.
std::string read_headers_digest(const std::string& include_directory) {
  std::vector<fs::path> headers;
  std::error_code error;
  const fs::path root = fs::path(include_directory) / "pto";
  for (const fs::directory_entry& item : fs::directory_iterator(root, error)) {
    const std::string kind = item.path().extension().string();
    if (kind == ".hpp" || kind == ".h") headers.push_back(item.path());
  }
  for (const char* room : {"abi", "base", "isa", "operators", "tasks"}) {
    for (fs::recursive_directory_iterator at(root / room, error), end; at != end;
         at.increment(error)) {
      const std::string kind = at->path().extension().string();
      if (kind == ".hpp" || kind == ".h" || kind == ".def") headers.push_back(at->path());
    }
  }
  std::sort(headers.begin(), headers.end());
  Sha256 all;
  for (const fs::path& header : headers) {
    all.field(header.lexically_relative(root).string()).field(read_file(header).value_or(""));
  }
  return hex(all.digest());
}

std::string headers_digest(const std::string& include_directory) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& digest = known[include_directory];
  if (digest.empty()) digest = read_headers_digest(include_directory);
  return digest;
}

// Keeps the source of a failed compilation and adds its place to the error.
template <class AnyError>
[[noreturn]] void rethrow_with_source(const AnyError& error, const Source& source,
                                      const std::string& folder) {
  const std::string kept = folder + "/failed-" + file_name_of(source.name) + "-" +
                           hex(Sha256().update(source.text).digest()).substr(0, 16) + ".cpp";
  ErrorText text = error.text();
  if (replace_file(kept, source.text)) text.fix += "; the source is kept in " + kept;
  throw AnyError(text, error.kind());
}

void warn_once(const std::string& directory, const std::string& why) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  {
    const std::lock_guard lock(mutex);
    if (!warned.insert(directory).second) return;
  }
  warn("the cache folder " + directory + " cannot be used (" + why +
       "): kernels are compiled anew in every process; set PTO_CACHE_DIR to a folder that can be "
       "written");
}

// One compilation with everything that it needs.
struct Compilation {
  const Source& source;
  const Settings& settings;
  const Toolchain& toolchain;
  const Stop& interrupted;

  std::string compile(const WorkFolder& work, const std::string& folder) const {
    try {
      return compile_object(toolchain, source, work.path(), settings, interrupted);
    } catch (const Interrupted&) {
      throw;
    } catch (const RefusedCode& error) {
      rethrow_with_source(error, source, folder);
    } catch (const Error& error) {
      rethrow_with_source(error, source, folder);
    }
  }

  // Loads from the cache folder, or compiles into it; throws std::system_error for an unusable
  // folder.
  std::shared_ptr<const Library> cached(const std::string& entry) const {
    const Cache cache(settings.cache_directory);
    if (const auto path = cache.find(entry)) return opened(*path);
    const auto lock = cache.lock(entry, interrupted, settings.compile_seconds);
    if (const auto path = cache.find(entry)) return opened(*path);
    const WorkFolder work(cache.directory(), "work-");
    const std::string path = cache.insert(entry, compile(work, cache.directory()));
    cache.sweep(settings.cache_bytes);
    return opened(path);
  }

  std::shared_ptr<const Library> uncached() const {
    const std::string parent = temporary_directory();
    try {
      const WorkFolder work(parent, "openpto-");
      return std::make_shared<Library>(source.name, compile(work, parent));
    } catch (const std::system_error& error) {
      fail({source.name + ": neither the cache folder " + settings.cache_directory +
                " nor the temporary folder " + parent + " can be written (" +
                error.code().message() + ")",
            "a compiler writes its result to a file",
            "free some space, or set PTO_CACHE_DIR or TMPDIR to a folder that can be written"},
           ErrorKind::Runtime);
    }
  }

  // Opens an entry; a folder may forbid execution, and another process may evict the entry just
  // now.
  std::shared_ptr<const Library> opened(const std::string& path) const {
    try {
      return std::make_shared<Library>(source.name, path);
    } catch (const Error& error) {
      const std::optional<std::string> content = read_file(path);
      if (!content) throw std::system_error(ENOENT, std::generic_category(), path);
      const WorkFolder work(temporary_directory(), "openpto-");
      const std::string copy = work.path() + "/" + file_name_of(source.name) + ".so";
      write_file(copy, *content);
      return std::make_shared<Library>(source.name, copy);
    }
  }
};

std::shared_ptr<const Library> obtain(const Compilation& compilation, const std::string& entry) {
  try {
    return compilation.cached(entry);
  } catch (const std::system_error& error) {
    warn_once(compilation.settings.cache_directory, error.code().message());
    return compilation.uncached();
  }
}

// The libraries of this process and the compilations under way.
class Loader {
 public:
  using Make = std::function<std::shared_ptr<const Library>()>;

  // One caller makes, the others wait for its result or its error. An interruption concerns only
  // the caller that makes; a waiter then makes.
  std::shared_ptr<const Library> get(const std::string& key, const Stop& interrupted,
                                     const Make& make) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (auto library = loaded_[key].lock()) return library;
      const auto [at, first] = under_way_.try_emplace(key);
      if (first) break;
      wait(lock, at->second, interrupted);
    }
    const auto flight = under_way_[key] = std::make_shared<Flight>();
    lock.unlock();
    std::shared_ptr<const Library> library;
    std::exception_ptr error;
    try {
      library = make();
    } catch (const Interrupted&) {
      finish(key, *flight, nullptr, nullptr);
      throw;
    } catch (...) {
      error = std::current_exception();
    }
    finish(key, *flight, library, error);
    if (error) std::rethrow_exception(error);
    return library;
  }

 private:
  struct Flight {
    bool done = false;
    std::exception_ptr error;
  };

  void wait(std::unique_lock<std::mutex>& lock, std::shared_ptr<Flight> flight,
            const Stop& interrupted) {
    while (!flight->done) {
      finished_.wait_for(lock, std::chrono::milliseconds(20));
      if (flight->done) break;
      lock.unlock();
      const bool stop = interrupted && interrupted();
      lock.lock();
      if (!stop) continue;
      throw Interrupted({"the compilation was interrupted",
                         "it was asked to stop while another thread compiles this kernel",
                         "call again to compile"},
                        ErrorKind::Runtime);
    }
    if (flight->error) std::rethrow_exception(flight->error);
  }

  void finish(const std::string& key, Flight& flight, const std::shared_ptr<const Library>& library,
              std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (library != nullptr) loaded_[key] = library;
    flight.error = error;
    flight.done = true;
    under_way_.erase(key);
    finished_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable finished_;
  std::map<std::string, std::weak_ptr<const Library>> loaded_;
  std::map<std::string, std::shared_ptr<Flight>> under_way_;
};

}  // namespace

Library::Library(std::string name, const std::string& path)
    : name_(std::move(name)), path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr && not_loaded().empty()) return;
  const std::string text = handle_ == nullptr ? dlerror() : not_loaded();
  if (handle_ != nullptr) dlclose(handle_);
  fail({name_ + ": the compiled kernel cannot be loaded: " + text,
        "it must be an object for this machine whose functions libpto or the C library provide",
        "call only functions that the headers of pto/isa declare"},
       ErrorKind::Runtime);
}

Library::~Library() { dlclose(handle_); }

std::string Library::not_loaded() const {
  const auto ask = reinterpret_cast<const char* (*)()>(dlsym(handle_, "pto_not_loaded"));
  return ask == nullptr ? "" : ask();
}

pto_kernel Library::function(const std::string& symbol) const {
  if (void* found = dlsym(handle_, symbol.c_str())) return reinterpret_cast<pto_kernel>(found);
  fail({name_ + ": the compiled kernel exports no function \"" + symbol + "\"",
        "functions are found by name, as extern \"C\" int32_t name(const pto_args*) or in the "
        "public "
        "form extern \"C\" void kernel_entry(int64_t*)",
        "define " + symbol + " in the text or ask for a function that it defines"},
       ErrorKind::Runtime);
}

std::string Library::object() const {
  if (std::optional<std::string> content = read_file(path_)) return *std::move(content);
  fail({name_ + ": the compiled object " + path_ + " cannot be read any more",
        "it was compiled in a temporary folder, or evicted from the cache since",
        "set PTO_CACHE_DIR to a folder that can be written, and compile again"},
       ErrorKind::Runtime);
}

std::shared_ptr<const Library> load_object(const std::string& name, const std::string& object) {
  const std::string parent = temporary_directory();
  try {
    const WorkFolder work(parent, "openpto-");
    const std::string path = work.path() + "/" + file_name_of(name) + ".so";
    write_file(path, object);
    return std::make_shared<Library>(name, path);
  } catch (const std::system_error& error) {
    fail(
        {name + ": its object cannot be written to " + parent + " (" + error.code().message() + ")",
         "objects are loaded from files", "free some space, or set TMPDIR"},
        ErrorKind::Runtime);
  }
}

std::string source_digest(const Source& source, const Toolchain& toolchain,
                          const std::string& include_directory) {
  Sha256 all;
  all.field(source.text).field(headers_digest(include_directory));
  for (const std::string& flag : compile_flags(toolchain, source)) all.field(flag);
  all.field(toolchain.identity).field(name(source.target));
  all.field(std::to_string(PTO_ABI_VERSION)).field(source.object);
  return hex(all.digest());
}

std::shared_ptr<const Library> load(const Source& source, const Stop& interrupted) {
  static Loader* const loader = new Loader;  // never destroyed: threads may compile at exit
  const Settings now = settings();
  const Toolchain toolchain = find_toolchain(now);
  const std::string digest = source_digest(source, toolchain, now.include_directory);
  const std::string entry = file_name_of(source.name) + "-" + digest;
  const Compilation compilation{source, now, toolchain, interrupted};
  return loader->get(entry, interrupted, [&] { return obtain(compilation, entry); });
}

}  // namespace pto
