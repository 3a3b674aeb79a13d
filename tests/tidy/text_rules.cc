#include <algorithm>
#include <cctype>
#include <string>

#include "tests/base/temporary_folder.h"
#include "tests/tidy/rules.h"

namespace ps::tidy {
namespace {

constexpr size_t kLineCharactersMax = 100;
constexpr size_t kFileLinesMax = 800;

struct BannedName {
  std::string_view name;
  std::vector<std::string_view> allowed_in;  // path prefixes
  std::string_view instead;
};

const std::vector<BannedName>& BannedNames() {
  static const std::vector<BannedName> names = {
      {"asio::detached", {}, "Spawn: a detached coroutine drops its failure"},
      {"sleep_for", {"tests/e2e/"}, "a timer, or a wait with a deadline"},
      {"sleep_until", {"tests/e2e/"}, "a timer, or a wait with a deadline"},
      {"usleep", {}, "a timer, or a wait with a deadline"},
      {"nanosleep", {}, "a timer, or a wait with a deadline"},
      {"::sleep", {}, "a timer, or a wait with a deadline"},
      // RocksDB has a header of that name.
      {"system_clock", {"ps/base/time.cc", "tests/checkpoint/faulty_files.cc"}, "TimeSource"},
      {"steady_clock::now", {"ps/base/time.cc"}, "TimeSource"},
      {"high_resolution_clock", {}, "TimeSource"},
      {"gettimeofday", {}, "TimeSource"},
      {"random_device", {}, "Random, seeded from the config"},
      {"std::rand", {}, "Random, seeded from the config"},
      {"srand", {}, "Random, seeded from the config"},
      // Access keys are where every program has them; of launched commands, PATH decides what they
      // are. A program that becomes a worker has no flags of ours. TERM and NO_COLOR say whether a
      // terminal has colours.
      {"getenv",
       {"provisioner/fleet/launch_check.cc",
        "ps/process/environment.cc",
        "psctl/runs/top_command.cc",
        "worker/script/spotps.cc",
        "tests/"},
       "the config: there are no environment variables"},
      // Two tests with one file's name disturb each other.
      {"testing::TempDir", {"tests/checkpoint/format_test.cc"}, "TemporaryFolder"},
      {"::rename",
       {"ps/base/durable_file.cc", "tests/"},
       "MoveIntoPlace of ps/base/durable_file.h: a new name needs its directory synced"},
      {"create_directories",
       {"tests/"},
       "CreateDirectories of ps/base/durable_file.h: new directories need the ones above synced"},
      // With an error_code or without: what the system can't say is not "no".
      {"filesystem::exists",
       {"provisioner/rental/rent_settings.cc", "run/", "psctl/remote/head_resume.cc", "tests/"},
       "IsThere of ps/base/file.h: exists throws where the system can't say, as below a dead "
       "mount"},
      {"throw", {"tests/"}, "Status"},
      {"std::cout", {"psctl/", "tests/"}, "the logger; results are psctl's to print"},
      {"using namespace std;", {}, "std::"},
      {"cudaDeviceSynchronize", {}, "waiting for an event of one stream"},
  };
  return names;
}

bool IsUnderAny(std::string_view path, const std::vector<std::string_view>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [path](std::string_view prefix) {
    return path.starts_with(prefix);
  });
}

void CheckLine(
    std::string_view path, int number, std::string_view line, std::vector<Finding>* out) {
  if (const size_t n = CharacterCount(line); n > kLineCharactersMax) {
    out->push_back({std::string(path), number, "line of " + std::to_string(n) + " characters"});
  }
  if (line.find('\t') != std::string_view::npos) {
    out->push_back({std::string(path), number, "tab"});
  }
  if (line.ends_with(' ') || line.ends_with('\r')) {
    out->push_back({std::string(path), number, "blank at the end of the line"});
  }
}

/// A cast to void hides a Status; unused parameters have no name instead.
void CheckVoidCasts(const File& file, const std::string& code, std::vector<Finding>* out) {
  constexpr std::string_view kCast = "(void)";
  for (size_t at = code.find(kCast); at != std::string::npos; at = code.find(kCast, at + 1)) {
    const size_t next = code.find_first_not_of(' ', at + kCast.size());
    const char c = next == std::string::npos ? ' ' : code[next];
    // A global name behind :: is the system's, and a digit is PS_CHECK's.
    const bool is_cast =
        std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '(' || c == '*';
    const bool is_parameter_list = code.substr(next == std::string::npos ? at : next, 5) == "const";
    if (is_cast && !is_parameter_list) {
      out->push_back(
          {file.path, LineAt(code, at), "(void) cast; drop a failure with .Ignore(\"why\")"});
    }
  }
}

std::string_view FirstCodeLine(std::string_view code) {
  for (const std::string_view line : Lines(code)) {
    if (line.find_first_not_of(" \t") != std::string_view::npos) {
      return line;
    }
  }
  return {};
}

std::string_view FirstInclude(std::string_view code) {
  for (const std::string_view line : Lines(code)) {
    if (line.starts_with("#include")) {
      return line;
    }
  }
  return {};
}

}  // namespace

std::vector<Finding> CheckShape(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!file.text.empty() && !file.text.ends_with('\n')) {
      findings.push_back({file.path, 0, "no newline at the end of the file"});
    }
    if (file.path.ends_with(".md") || file.path.ends_with(".json") || file.path.ends_with(".svg")) {
      continue;
    }
    const std::vector<std::string_view> lines = Lines(file.text);
    // The schema of a file that people write is its manual, in one piece.
    const bool is_manual = file.path.starts_with("configs/") && file.path.ends_with(".fbs");
    if (lines.size() > kFileLinesMax && !is_manual) {
      findings.push_back({file.path, 0, std::to_string(lines.size()) + " lines; split at 800"});
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      CheckLine(file.path, static_cast<int>(i) + 1, lines[i], &findings);
    }
  }
  return findings;
}

std::vector<Finding> CheckBannedNames(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!IsCode(file.path)) {
      continue;
    }
    const std::string code = BlankOut(file.text, Blank::kCommentsAndLiterals);
    for (const BannedName& banned : BannedNames()) {
      if (IsUnderAny(file.path, banned.allowed_in)) {
        continue;
      }
      for (size_t at = FindToken(code, banned.name, 0); at != std::string::npos;
           at = FindToken(code, banned.name, at + 1)) {
        findings.push_back(
            {file.path,
             LineAt(code, at),
             std::string(banned.name) + " is banned; use " + std::string(banned.instead)});
      }
    }
    CheckVoidCasts(file, code, &findings);
  }
  return findings;
}

std::vector<Finding> CheckMains(const Tree& tree) {
  constexpr std::string_view kMain = "\nint main(";
  constexpr std::string_view kFirst = "OpenStandardStreams();";
  std::vector<Finding> findings;
  for (const File& file : tree) {
    // The schema's tool runs in the build alone, and writes one file.
    const size_t at =
        file.path.starts_with("tests/") || file.path == "ps/proto/files/schema_tool.cc"
            ? std::string::npos
            : file.text.find(kMain);
    if (at == std::string::npos || !IsCode(file.path)) {
      continue;
    }
    const std::string_view body = std::string_view(file.text).substr(file.text.find('{', at) + 1);
    const size_t first = body.find(kFirst);
    if (first == std::string_view::npos || body.find(';') != first + kFirst.size() - 1) {
      findings.push_back(
          {file.path, LineAt(file.text, at + 1), "main does not begin with OpenStandardStreams()"});
    }
  }
  return findings;
}

std::vector<Finding> CheckMarks(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    // The rule's own text and tests have to name the marks.
    if (file.path.starts_with("tests/tidy/")) {
      continue;
    }
    for (const std::string_view mark : {"TODO", "FIXME", "XXX"}) {
      for (size_t at = FindToken(file.text, mark, 0); at != std::string::npos;
           at = FindToken(file.text, mark, at + 1)) {
        findings.push_back(
            {file.path, LineAt(file.text, at), std::string(mark) + ": do it or leave it"});
      }
    }
    for (const std::string_view mark : {"NOLINT", "NOLINTNEXTLINE", "NOLINTBEGIN"}) {
      for (size_t at = FindToken(file.text, mark, 0); IsCode(file.path) && at != std::string::npos;
           at = FindToken(file.text, mark, at + 1)) {
        if (file.text.substr(at + mark.size(), 1) != "(") {
          findings.push_back(
              {file.path, LineAt(file.text, at), std::string(mark) + " names no check"});
        }
      }
    }
    if (!IsCode(file.path) || file.path.starts_with("tests/")) {
      continue;
    }
    for (size_t at = file.text.find("// Of "); at != std::string::npos;
         at = file.text.find("// Of ", at + 1)) {
      findings.push_back(
          {file.path, LineAt(file.text, at), "a comment says what a thing is before of what"});
    }
  }
  return findings;
}

std::vector<Finding> CheckHeaders(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!IsCode(file.path)) {
      continue;
    }
    const std::string code = BlankOut(file.text, Blank::kComments);
    if (IsHeader(file.path)) {
      if (FirstCodeLine(code) != "#pragma once") {
        findings.push_back({file.path, 1, "a header begins with #pragma once"});
      }
      continue;
    }
    const std::string header = file.path.substr(0, file.path.rfind('.')) + ".h";
    if (FindFile(tree, header) != nullptr && FirstInclude(code) != "#include \"" + header + "\"") {
      findings.push_back({file.path, 1, "its own header " + header + " is included first"});
    }
  }
  return findings;
}

}  // namespace ps::tidy
