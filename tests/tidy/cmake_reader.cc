#include "tests/tidy/cmake_reader.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace ps::tidy {
namespace {

constexpr std::array<std::string_view, 6> kDefinitions = {
    "ps_library", "ps_program", "ps_test", "ps_benchmark", "add_library", "add_executable"};

template <size_t N>
bool Contains(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool IsSectionName(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isupper(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

/// Cuts CMake text into words, parentheses and newlines; comments and quotes go.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  /// "" at the end.
  std::string Next() {
    SkipBlanksAndComments();
    if (at_ == text_.size()) {
      return {};
    }
    if (text_[at_] == '(' || text_[at_] == ')') {
      return std::string(1, text_[at_++]);
    }
    std::string word;
    if (text_[at_] == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
        line_ += text_[at_] == '\n' ? 1 : 0;
        word += text_[at_];
      }
      at_ += at_ < text_.size() ? 1 : 0;
      return word.empty() ? "\"\"" : word;
    }
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n()#\"").find(text_[at_]) == std::string_view::npos) {
      word += text_[at_++];
    }
    return word;
  }

  int line() const { return line_; }

 private:
  void SkipBlanksAndComments() {
    bool is_comment = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      is_comment = (is_comment || c == '#') && c != '\n';
      if (!is_comment && std::isspace(static_cast<unsigned char>(c)) == 0) {
        return;
      }
      line_ += c == '\n' ? 1 : 0;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<CMakeCommand> ReadCommands(std::string_view text) {
  std::vector<CMakeCommand> commands;
  Tokens tokens(text);
  for (std::string word = tokens.Next(); !word.empty(); word = tokens.Next()) {
    CMakeCommand command;
    command.name = word;
    command.line = tokens.line();
    if (tokens.Next() != "(") {
      continue;
    }
    int depth = 1;
    while (depth > 0) {
      const std::string argument = tokens.Next();
      if (argument.empty()) {
        break;
      }
      depth += argument == "(" ? 1 : (argument == ")" ? -1 : 0);
      if (argument != "(" && argument != ")") {
        command.words.push_back(argument);
      }
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

std::vector<CMakeTarget> ReadTargets(std::string_view text) {
  std::vector<CMakeTarget> targets;
  for (const CMakeCommand& command : ReadCommands(text)) {
    const bool is_definition = Contains(kDefinitions, command.name);
    const bool is_link = command.name == "target_link_libraries";
    if ((!is_definition && !is_link) || command.words.empty()) {
      continue;
    }
    CMakeTarget target;
    target.name = command.words.front();
    target.line = command.line;
    target.is_definition = is_definition;
    bool is_library = is_link;
    for (size_t i = 1; i < command.words.size(); ++i) {
      const std::string& word = command.words[i];
      if (IsSectionName(word)) {
        is_library = is_link || word == "LINK" || word == "PRIVATE_LINK";
      } else if (is_library) {
        target.links.push_back(word);
      }
    }
    targets.push_back(std::move(target));
  }
  return targets;
}

}  // namespace ps::tidy
