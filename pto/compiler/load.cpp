// SPDX-License-Identifier: Apache-2.0
#include "pto/compiler/load.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <vector>

#include "pto/base/file.hpp"
#include "pto/base/of_process.hpp"
#include "pto/compiler/build.hpp"
#include "pto/compiler/noted.hpp"

namespace pto {
namespace {

using Stop = std::function<bool()>;

void warn_once(const std::string& directory, const std::string& why) {
  static Noted warned;
  if (warned.add(directory) > 1) return;
  warn("the cache folder " + directory + " cannot be used (" + why +
       "): kernels are compiled anew in every process; set PTO_CACHE_DIR to a folder that can be "
       "written");
}

// Compiles into a temporary folder, and uses the object at its path.
template <class Use>
auto use_uncached(const Build& build, const Stop& interrupted, const Use& use) {
  const std::string parent = temporary_directory(), &name = build.source().name;
  try {
    const WorkFolder work(parent, "openpto-");
    return use(build.compile(work.path(), parent, interrupted));
  } catch (const std::system_error& error) {
    fail({name + ": neither the cache folder " + build.folder() + " nor the temporary folder " +
              parent + " can be written (" + error.code().message() + ")",
          "a compiler writes its result to a file",
          "free some space, or set PTO_CACHE_DIR or TMPDIR to a folder that can be written"},
         ErrorKind::Runtime);
  }
}

// Opens an entry; a folder may forbid execution, and another process may evict the entry just now.
std::shared_ptr<const Library> opened(const std::string& name, const std::string& path) {
  try {
    return std::make_shared<Library>(name, path);
  } catch (const Error& error) {
    const std::optional<std::string> content = read_file(path);
    if (!content) throw std::system_error(ENOENT, std::generic_category(), path);
    return load_object(name, *content);
  }
}

std::shared_ptr<const Library> obtain(const Build& build, const Stop& interrupted) {
  try {
    const auto use = [&](bool again) {
      return despite_removal(
          [&] { return opened(build.source().name, build.run(interrupted, again)); });
    };
    try {
      return use(/*again=*/false);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {  // linked to a libpto that lacked a function, or with another error
      if (!build.find()) throw;
      return use(/*again=*/true);
    }
  } catch (const std::system_error& error) {
    warn_once(build.folder(), error.code().message());
    return use_uncached(build, interrupted, [&](const std::string& path) {
      return std::shared_ptr<const Library>(std::make_shared<Library>(build.source().name, path));
    });
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

std::shared_ptr<const Library> load(const Source& source, const Stop& interrupted,
                                    const std::string& cache_directory) {
  const Build build(source, settings(), cache_directory);
  return of_process<Loader>().get(build.path(), interrupted,
                                  [&] { return obtain(build, interrupted); });
}

std::string build_object(const Source& source, const Stop& interrupted,
                         const std::string& cache_directory) {
  const Build build(source, settings(), cache_directory);
  const auto content = [](const std::string& path) {
    std::optional<std::string> found = read_file(path);
    if (!found) throw std::system_error(ENOENT, std::generic_category(), path);
    return *std::move(found);
  };
  try {
    return despite_removal([&] { return content(build.run(interrupted)); });
  } catch (const std::system_error& error) {
    warn_once(build.folder(), error.code().message());
    return use_uncached(build, interrupted, content);
  }
}

}  // namespace pto
