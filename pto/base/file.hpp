// SPDX-License-Identifier: Apache-2.0
// Files: reads, writes and replaces whole files.
//
//     if (auto text = read_file(path)) write_file(copy, *text);
//
// Thread safety: all functions may be called from any thread; readers of a replaced file see the
// old or the new content, whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pto {

// Returns nothing where the file cannot be read.
std::optional<std::string> read_file(const std::string& path);

// Throws std::system_error where the file cannot be written.
void write_file(const std::string& path, std::string_view content, bool append = false);

// Writes beside `path` and renames; false where that failed, and then nothing is left.
bool replace_file(const std::string& path, std::string_view content);

// Makes a private folder, `parent`/`prefix`XXXXXX, and removes it with its content at its end;
// throws std::system_error.
class WorkFolder {
 public:
  WorkFolder(const std::string& parent, const std::string& prefix);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Returns a text that changes when the file at `path`, or behind it, does; "" where there is none.
std::string file_stamp(const std::string& path);

// Returns TMPDIR, else /tmp.
std::string temporary_directory();

// Returns a name that stays right when the current folder changes, and that no program takes for an
// option; unchanged where the current folder is gone.
std::string absolute_path(const std::string& path);

// Returns the part of a name that may stand in a file name: "softmax" for "softmax (2, 3)".
std::string file_name_of(const std::string& name);

}  // namespace pto
