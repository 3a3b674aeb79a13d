#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::tidy {

/// A text file of the repository. `path` is relative to its root, with '/' between parts.
struct File {
  std::string path;
  std::string text;
};

/// Ordered by path.
using Tree = std::vector<File>;

/// Something that breaks a rule of the house. `line` counts from 1; 0 means the whole file.
struct Finding {
  std::string path;
  int line = 0;
  std::string message;

  friend bool operator==(const Finding&, const Finding&) = default;
};

/// One finding a line, "path:line: message", so that editors can jump to them.
std::string Print(const std::vector<Finding>& findings);

/// Reads every text file below `root`. Left out: build trees, run directories, hidden folders but
/// .ci, binary data. Errors: kNotFound when `root` is not the root of a checkout, kIo.
Result<Tree> LoadTree(const std::string& root);

const File* FindFile(const Tree& tree, std::string_view path);

/// "ps/net/loop.h" -> "ps/net"; "" for files at the root.
std::string_view FolderOf(std::string_view path);
/// "ps/net/loop.h" -> "loop.h".
std::string_view NameOf(std::string_view path);

bool IsHeader(std::string_view path);
/// .cc and .cu
bool IsSource(std::string_view path);
/// Headers and sources.
bool IsCode(std::string_view path);
/// CMakeLists.txt and *.cmake
bool IsCMake(std::string_view path);

/// The text cut at its newlines.
std::vector<std::string_view> Lines(std::string_view text);

/// The line, from 1, of a position in a text.
int LineAt(std::string_view text, size_t position);

/// Characters of a UTF-8 text.
size_t CharacterCount(std::string_view utf8);

enum class Blank { kComments, kCommentsAndLiterals };

/// C++ text with comments (and the insides of literals) replaced by spaces. Newlines stay, so line
/// numbers do too.
std::string BlankOut(std::string_view text, Blank what);

/// Position of `token` in `text` at or after `from`, not as part of a longer identifier.
size_t FindToken(std::string_view text, std::string_view token, size_t from);

}  // namespace ps::tidy
