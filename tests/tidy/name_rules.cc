#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "tests/tidy/cmake_reader.h"
#include "tests/tidy/rules.h"

namespace ps::tidy {
namespace {

constexpr std::string_view kJoinedCommands[] = {"ps_library", "ps_program", "ps_test"};
/// Their sources are compiled one by one.
constexpr std::string_view kNotJoined[] = {
    "kernels_cpu", "kernels_cuda", "kernels_cuda_emulated", "ps_codec"};

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The word that ends at `end`.
std::string_view WordBefore(std::string_view text, size_t end) {
  size_t begin = end;
  while (begin > 0 && IsWord(text[begin - 1])) {
    --begin;
  }
  return text.substr(begin, end - begin);
}

/// "int a, const T& b = 1" -> "int,const T&": without names, defaults and needless spaces.
std::string ParameterTypes(std::string_view parameters) {
  std::string types;
  std::string one;
  int depth = 0;
  const auto flush = [&] {
    const std::string_view text = std::string_view(one).substr(0, one.find('='));
    const size_t end = text.find_last_not_of(' ') + 1;
    const std::string_view name = WordBefore(text, end);
    const bool has_name = end > name.size() && text.find_first_not_of(' ') < end - name.size();
    types += std::string(text.substr(0, has_name ? end - name.size() : end)) + ",";
    one.clear();
  };
  for (const char c : parameters) {
    depth += c == '<' || c == '(' ? 1 : (c == '>' || c == ')' ? -1 : 0);
    if (c == ',' && depth == 0) {
      flush();
    } else if (c != '\n') {
      one += c;
    }
  }
  flush();
  std::erase(types, ' ');
  return types;
}

/// What a declaration at the left margin names, up to its first brace; nothing when it is no
/// constant, type or function that is defined here.
std::optional<std::string> NameOfDefinition(std::string_view text) {
  for (const std::string_view kind : {"struct ", "class ", "enum class ", "enum "}) {
    if (text.starts_with(kind)) {
      const std::string_view rest = text.substr(kind.size());
      const size_t end = rest.find_first_of(" :{;\n");
      return std::string(rest.substr(0, end));
    }
  }
  if (text.starts_with("using ") || text.starts_with("template")) {
    return std::nullopt;
  }
  const size_t stop = text.find_first_of("=({[");
  if (stop == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string name(WordBefore(text, text.find_last_not_of(" \n", stop - 1) + 1));
  if (text[stop] != '(') {
    return text.find("const") < stop ? std::optional(name) : std::nullopt;
  }
  const size_t end = text.rfind(')');
  return end == std::string_view::npos || end < stop
             ? std::nullopt
             : std::optional(name + "(" + ParameterTypes(text.substr(stop + 1, end - stop - 1)));
}

/// Where a declaration has its first brace or its semicolon, outside of parentheses.
size_t EndOfHead(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : (text[i] == ')' ? -1 : 0);
    if (depth == 0 && (text[i] == '{' || text[i] == ';')) {
      return i;
    }
  }
  return text.size();
}

/// Names in unnamed namespaces of a source, with their lines.
std::map<std::string, int> NamesIn(const File& file) {
  std::map<std::string, int> names;
  const std::string text = BlankOut(file.text, Blank::kCommentsAndLiterals);
  bool is_inside = false;
  size_t position = 0;
  for (const std::string_view line : Lines(text)) {
    const size_t begin = position;
    position += line.size() + 1;
    if (line.starts_with("namespace {")) {
      is_inside = true;
    } else if (
        is_inside && line.starts_with("}") && line.find_last_not_of(' ') == 0 &&
        std::string_view(file.text).substr(begin).starts_with("}  // namespace\n")) {
      is_inside = false;
    } else if (is_inside && !line.empty() && std::isalpha(static_cast<unsigned char>(line[0]))) {
      const std::string_view rest = std::string_view(text).substr(begin);
      const std::string_view head = rest.substr(0, EndOfHead(rest) + 1);
      const bool is_declared_only = head.ends_with(';') && head.find('=') == std::string_view::npos;
      const auto name = is_declared_only ? std::nullopt : NameOfDefinition(head);
      if (name) {
        names.emplace(*name, LineAt(text, begin));
      }
    }
  }
  return names;
}

void CheckTarget(
    const Tree& tree,
    const CMakeCommand& target,
    std::string_view folder,
    std::vector<Finding>* findings) {
  std::map<std::string, std::string> owners;
  for (const std::string& word : target.words) {
    const std::string path = (std::filesystem::path(folder) / word).lexically_normal().string();
    const File* const file = IsSource(word) ? FindFile(tree, path) : nullptr;
    for (const auto& [name, line] :
         file == nullptr ? std::map<std::string, int>() : NamesIn(*file)) {
      const auto [owner, is_new] = owners.emplace(name, path);
      if (!is_new && owner->second != path) {
        findings->push_back(
            {path, line, name.substr(0, name.find('(')) + " is in " + owner->second + ", too"});
      }
    }
  }
}

}  // namespace

std::vector<Finding> CheckNamesOfJoinedSources(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!IsCMake(file.path)) {
      continue;
    }
    for (const CMakeCommand& command : ReadCommands(file.text)) {
      const bool is_joined =
          std::ranges::find(kJoinedCommands, command.name) != std::end(kJoinedCommands) &&
          !command.words.empty() &&
          std::ranges::find(kNotJoined, command.words.front()) == std::end(kNotJoined);
      if (is_joined) {
        CheckTarget(tree, command, FolderOf(file.path), &findings);
      }
    }
  }
  return findings;
}

}  // namespace ps::tidy
