#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "tests/tidy/rules.h"

namespace ps::tidy {
namespace {

constexpr size_t kDocumentColumnsMax = 120;

bool IsDocument(const File& file) {
  return file.path.ends_with(".md");
}

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string_view WordAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsWordCharacter(text[end])) {
    ++end;
  }
  return text.substr(at, end - at);
}

/// As in "2026-11-22".
bool HasDate(std::string_view name) {
  constexpr std::string_view kPattern = "dddd-dd-dd";
  for (size_t at = 0; at + kPattern.size() <= name.size(); ++at) {
    const bool is_date = std::equal(
        kPattern.begin(), kPattern.end(), name.begin() + static_cast<long>(at), [](char p, char c) {
          return p == 'd' ? std::isdigit(static_cast<unsigned char>(c)) != 0 : p == c;
        });
    if (is_date) {
      return true;
    }
  }
  return false;
}

void CheckLineLengths(const File& file, std::vector<Finding>* findings) {
  const std::vector<std::string_view> lines = Lines(file.text);
  bool is_fenced = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view text = line.substr(begin);
    if (text.starts_with("```")) {
      is_fenced = !is_fenced;
    }
    const bool may_be_long = is_fenced || begin >= 4 || text.starts_with("|") ||
                             text.starts_with("[") || text.starts_with("![");
    if (const size_t n = CharacterCount(line); n > kDocumentColumnsMax && !may_be_long) {
      findings->push_back(
          {file.path,
           static_cast<int>(i) + 1,
           "line of " + std::to_string(n) + " characters; wrap documents at 120"});
    }
  }
}

bool IsFolder(const Tree& tree, std::string path) {
  if (!path.ends_with('/')) {
    path += '/';
  }
  return std::any_of(
      tree.begin(), tree.end(), [&](const File& file) { return file.path.starts_with(path); });
}

/// What links to the headings of a document say behind their '#': the text in lower case without
/// punctuation, with '-' for each blank. A heading that comes again has "-1" behind it.
std::set<std::string> Anchors(const File& file) {
  std::set<std::string> anchors;
  std::map<std::string, int> times;
  for (const std::string_view line : Lines(file.text)) {
    const size_t level = std::min(line.find_first_not_of('#'), line.size());
    if (level == 0 || level == line.size() || line[level] != ' ') {
      continue;
    }
    std::string anchor;
    for (const char c : line.substr(level + 1)) {
      if (IsWordCharacter(c) || c == '-' || c == ' ') {
        anchor += c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
    }
    const int earlier = times[anchor]++;
    anchors.insert(earlier == 0 ? anchor : anchor + "-" + std::to_string(earlier));
  }
  return anchors;
}

/// Whether a text is the path of one file from the root, as in "ps/net/loop.h".
bool IsPathOfTree(std::string_view text) {
  constexpr std::array<std::string_view, 11> kFolders = {
      "ps/",
      "worker/",
      "kernels/",
      "checkpoint/",
      "provisioner/",
      "run/",
      "psctl/",
      "configs/",
      "tests/",
      "docs/",
      "scripts/"};
  constexpr std::array<std::string_view, 7> kEndings = {
      ".h", ".cc", ".cu", ".md", ".sh", ".fbs", ".json"};
  const bool is_word = text.find_first_of(" *<>{}") == std::string_view::npos;
  return is_word &&
         std::any_of(
             kFolders.begin(), kFolders.end(), [&](auto f) { return text.starts_with(f); }) &&
         std::any_of(kEndings.begin(), kEndings.end(), [&](auto e) { return text.ends_with(e); });
}

/// "Suite" and "Suite.Name" of every test of the repository's own.
std::set<std::string> TestNames(const Tree& tree) {
  std::set<std::string> names;
  for (const File& file : tree) {
    if (!file.path.starts_with("tests/") || !IsSource(file.path)) {
      continue;
    }
    for (const std::string_view macro : {"TEST", "TEST_F", "TEST_P", "TYPED_TEST_P"}) {
      for (size_t at = FindToken(file.text, macro, 0); at != std::string::npos;
           at = FindToken(file.text, macro, at + 1)) {
        constexpr std::string_view kBetween = "( \n,";
        const size_t suite_at = file.text.find_first_not_of(kBetween, at + macro.size());
        if (suite_at == std::string::npos) {
          continue;
        }
        const std::string suite(WordAt(file.text, suite_at));
        const size_t name_at = file.text.find_first_not_of(kBetween, suite_at + suite.size());
        names.insert(suite);
        if (name_at != std::string::npos) {
          names.insert(suite + "." + std::string(WordAt(file.text, name_at)));
        }
      }
    }
  }
  return names;
}

/// Calls `found` with every "SuiteTest" and "SuiteTest.Name" in a text, and where it begins.
void ForEachTestName(
    std::string_view text, const std::function<void(size_t at, const std::string& name)>& found) {
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view word = WordAt(text, at);
    if (word.empty()) {
      continue;
    }
    size_t end = at + word.size();
    constexpr std::string_view kEnding = "Test";
    if (std::isupper(static_cast<unsigned char>(word.front())) != 0 &&
        word.size() > kEnding.size() && word.ends_with(kEnding)) {
      std::string name(word);
      if (end + 1 < text.size() && text[end] == '.' &&
          std::isupper(static_cast<unsigned char>(text[end + 1])) != 0) {
        const std::string_view test = WordAt(text, end + 1);
        name.append(".").append(test);
        end += 1 + test.size();
      }
      found(at, name);
    }
    at = end;
  }
}

}  // namespace

std::vector<Finding> CheckDocumentShape(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!IsDocument(file)) {
      continue;
    }
    CheckLineLengths(file, &findings);
    if (file.path.starts_with("docs/") && HasDate(NameOf(file.path))) {
      findings.push_back({file.path, 0, "a date in the name; one page per area, git has the past"});
    }
  }
  return findings;
}

std::vector<Finding> CheckNamedFiles(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!IsDocument(file)) {
      continue;
    }
    for (size_t begin = file.text.find('`'); begin != std::string::npos;) {
      const size_t end = file.text.find_first_of("`\n", begin + 1);
      if (end == std::string::npos) {
        break;
      }
      const std::string_view name = std::string_view(file.text).substr(begin + 1, end - begin - 1);
      if (file.text[end] == '`' && IsPathOfTree(name) && FindFile(tree, name) == nullptr) {
        findings.push_back(
            {file.path, LineAt(file.text, begin), "there is no file " + std::string(name)});
      }
      begin = file.text.find('`', end + 1);
    }
  }
  return findings;
}

std::vector<Finding> CheckDocumentLinks(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    constexpr std::string_view kLink = "](";
    for (size_t at = file.text.find(kLink); IsDocument(file) && at != std::string::npos;
         at = file.text.find(kLink, at + 1)) {
      const size_t begin = at + kLink.size();
      const size_t end = std::min(file.text.find_first_of(") \n", begin), file.text.size());
      const std::string link = file.text.substr(begin, end - begin);
      if (link.find("://") != std::string::npos || file.text[end] != ')') {
        continue;
      }
      const size_t hash = std::min(link.find('#'), link.size());
      const std::string path =
          hash == 0 ? file.path
                    : (std::filesystem::path(FolderOf(file.path)) / link.substr(0, hash))
                          .lexically_normal()
                          .string();
      const File* target = FindFile(tree, path);
      if (target == nullptr && !IsFolder(tree, path)) {
        findings.push_back({file.path, LineAt(file.text, at), "dead link: " + path});
      } else if (
          hash < link.size() && target != nullptr && IsDocument(*target) &&
          Anchors(*target).count(link.substr(hash + 1)) == 0) {
        findings.push_back(
            {file.path,
             LineAt(file.text, at),
             "no heading of " + path + " is " + link.substr(hash)});
      }
    }
  }
  return findings;
}

std::vector<Finding> CheckNamedTests(const Tree& tree) {
  const std::set<std::string> tests = TestNames(tree);
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!IsDocument(file)) {
      continue;
    }
    ForEachTestName(file.text, [&](size_t at, const std::string& name) {
      if (tests.count(name) == 0) {
        findings.push_back({file.path, LineAt(file.text, at), "there is no test " + name});
      }
    });
  }
  return findings;
}

}  // namespace ps::tidy
