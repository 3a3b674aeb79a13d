#include "tests/tidy/tree.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace ps::tidy {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 10> kTextExtensions = {
    ".h", ".cc", ".cu", ".cuh", ".cmake", ".sh", ".fbs", ".json", ".md", ".svg"};

bool IsIdentifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool IsText(std::string_view path) {
  if (IsCMake(path) || path == ".ci/run" || path == "LICENSE" || path == "Dockerfile") {
    return true;
  }
  return std::any_of(kTextExtensions.begin(), kTextExtensions.end(), [path](std::string_view e) {
    return path.ends_with(e);
  });
}

bool IsSkippedFolder(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const bool is_hidden = name.starts_with(".") && name != ".ci";
  const bool has_runs = name == "runs" && !fs::exists(folder / "CMakeLists.txt");
  return is_hidden || name == "build" || has_runs || fs::exists(folder / "CMakeCache.txt");
}

/// A ' inside a number, as in 1'000.
bool IsDigitSeparator(std::string_view text, size_t at) {
  return text[at] == '\'' && at > 0 && IsIdentifier(text[at - 1]);
}

size_t EndOfRawString(std::string_view text, size_t quote) {
  const size_t open = text.find('(', quote);
  if (open == std::string_view::npos) {
    return text.size();
  }
  const std::string close = ")" + std::string(text.substr(quote + 1, open - quote - 1)) + "\"";
  const size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

size_t EndOfLiteral(std::string_view text, size_t quote) {
  for (size_t i = quote + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == text[quote] || text[i] == '\n') {
      return i + 1;
    }
  }
  return text.size();
}

size_t EndOfComment(std::string_view text, size_t begin) {
  const bool is_line = text[begin + 1] == '/';
  const size_t end = is_line ? text.find('\n', begin) : text.find("*/", begin + 2);
  if (end == std::string_view::npos) {
    return text.size();
  }
  return is_line ? end : end + 2;
}

void FillWithSpaces(std::string* text, size_t begin, size_t end) {
  for (size_t i = begin; i < end && i < text->size(); ++i) {
    if ((*text)[i] != '\n') {
      (*text)[i] = ' ';
    }
  }
}

}  // namespace

std::string Print(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    out += finding.path + ":" + std::to_string(finding.line) + ": " + finding.message + "\n";
  }
  return out;
}

Result<Tree> LoadTree(const std::string& root) {
  if (!fs::exists(fs::path(root) / "ps" / "base")) {
    return Status::NotFound(root + " is not the root of a checkout: it has no ps/base");
  }
  Tree tree;
  std::error_code error;
  fs::recursive_directory_iterator it(root, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->is_directory()) {
      if (IsSkippedFolder(it->path())) {
        it.disable_recursion_pending();
      }
      continue;
    }
    const std::string path = it->path().lexically_relative(root).generic_string();
    if (!it->is_regular_file()) {
      continue;
    }
    if (path.ends_with(".png")) {
      tree.push_back({path, ""});  // documents show it; its bytes are no text
    }
    if (!IsText(path)) {
      continue;
    }
    std::ifstream in(it->path(), std::ios::binary);
    if (!in) {
      return Status::Io("cannot read " + path);
    }
    tree.push_back({path, {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}});
  }
  if (error) {
    return Status::Io("cannot walk " + root + ": " + error.message());
  }
  std::sort(tree.begin(), tree.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return tree;
}

const File* FindFile(const Tree& tree, std::string_view path) {
  const auto it = std::lower_bound(
      tree.begin(), tree.end(), path, [](const File& f, std::string_view p) { return f.path < p; });
  return it != tree.end() && it->path == path ? &*it : nullptr;
}

std::string_view FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool IsHeader(std::string_view path) {
  return path.ends_with(".h") || path.ends_with(".cuh");
}

bool IsSource(std::string_view path) {
  return path.ends_with(".cc") || path.ends_with(".cu");
}

bool IsCode(std::string_view path) {
  return IsHeader(path) || IsSource(path);
}

bool IsCMake(std::string_view path) {
  return NameOf(path) == "CMakeLists.txt" || path.ends_with(".cmake");
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string BlankOut(std::string_view text, Blank what) {
  std::string out(text);
  size_t i = 0;
  while (i < text.size()) {
    const bool is_comment =
        text[i] == '/' && i + 1 < text.size() && (text[i + 1] == '/' || text[i + 1] == '*');
    if (is_comment) {
      const size_t end = EndOfComment(text, i);
      FillWithSpaces(&out, i, end);
      i = end;
      continue;
    }
    const bool is_quote = text[i] == '"' || (text[i] == '\'' && !IsDigitSeparator(text, i));
    if (!is_quote) {
      ++i;
      continue;
    }
    const bool is_raw = text[i] == '"' && i > 0 && text[i - 1] == 'R';
    const size_t end = is_raw ? EndOfRawString(text, i) : EndOfLiteral(text, i);
    if (what == Blank::kCommentsAndLiterals) {
      FillWithSpaces(&out, i, end);
    }
    i = end;
  }
  return out;
}

int LineAt(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, position);
  return 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
}

size_t CharacterCount(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

size_t FindToken(std::string_view text, std::string_view token, size_t from) {
  for (size_t at = text.find(token, from); at != std::string_view::npos;
       at = text.find(token, at + 1)) {
    const size_t end = at + token.size();
    const bool joins_left = IsIdentifier(token.front()) && at > 0 && IsIdentifier(text[at - 1]);
    const bool joins_right =
        IsIdentifier(token.back()) && end < text.size() && IsIdentifier(text[end]);
    if (!joins_left && !joins_right) {
      return at;
    }
  }
  return std::string_view::npos;
}

}  // namespace ps::tidy
