#include "worker/script/script_start.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

/// Flags whose values are files: the program may start in another folder.
constexpr std::array<std::string_view, 2> kFileFlags = {"log-file", "notice-file"};

/// A file without a name that stays open in the program; its path, also for what the program starts
/// in its place without open files, as Python's subprocess does. Errors: kIo.
Result<std::string> HandOver(const std::string& text) {
  const int fd = ::memfd_create("spotps-token", 0);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Status::Io(fmt::format("cannot hand the token over: {}", std::strerror(errno)));
  }
  return fmt::format("/proc/{}/fd/{}", ::getpid(), fd);
}

std::vector<std::string> WordsOf(const Flags& flags, const std::string& token_path) {
  std::vector<std::string> words = {"--token-file=" + token_path};
  for (const auto& [name, value] : flags.values()) {
    if (name == "program" || name == "directory" || name == "token-file") {
      continue;
    }
    const bool is_file = std::ranges::find(kFileFlags, name) != kFileFlags.end();
    words.push_back("--" + name + "=" + (is_file ? fs::absolute(value).string() : value));
  }
  return words;
}

}  // namespace

Result<std::vector<std::string>> ParseWords(std::string_view json, const std::string& what) {
  const auto misuse = [&](std::string_view why) {
    return Status::InvalidArgument(fmt::format(
        "{} {}; allowed: a JSON list of words, as [\"python3\", \"train.py\"]", what, why));
  };
  const Result<JsonValue> list = ParseJson(json, what);
  if (!list.ok()) {
    return misuse("is no JSON (" + std::string(list.status().message()) + ")");
  }
  if (list->kind != JsonValue::Kind::kList || list->children.empty()) {
    return misuse("is no list, or an empty one");
  }
  std::vector<std::string> words;
  for (const JsonValue& word : list->children) {
    if (word.kind != JsonValue::Kind::kText || word.text.empty()) {
      return misuse("has an entry that is no word");
    }
    words.push_back(word.text);
  }
  return words;
}

std::string PrintWords(const std::vector<std::string>& words) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginList();
  for (const std::string& word : words) {
    json.Value(word);
  }
  json.EndList();
  return std::move(json).Take();
}

std::string LibraryPath() {
  std::error_code error;
  const fs::path programs = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* const place : {"", "../" PS_LIBRARY_DIRECTORY, "../lib"}) {
    const fs::path path = (programs / place / "libspotps.so").lexically_normal();
    if (!error && fs::is_regular_file(path, error)) {
      return path.string();
    }
    error.clear();
  }
  return "";
}

Status StartScript(
    const std::string& program_json,
    const std::string& directory,
    const Flags& flags,
    const std::string& token_file) {
  PS_ASSIGN(std::vector<std::string> words, ParseWords(program_json, "--program"));
  PS_ASSIGN(const std::string token_path, HandOver(token_file));
  ::setenv(kWorkerVariable, PrintWords(WordsOf(flags, token_path)).c_str(), 1);
  ::unsetenv(kDescribeVariable);
  ::setenv("PYTHONUNBUFFERED", "1", 0);  // what it prints is in the log also when it is killed
  if (const std::string library = LibraryPath(); !library.empty()) {
    ::setenv(kLibraryVariable, library.c_str(), 0);
  }
  if (!directory.empty() && ::chdir(directory.c_str()) != 0) {
    return Status::NotFound(fmt::format(
        "--directory {}: {}; the program's folder has to be on every machine that works, at the "
        "same path",
        Printable(directory),
        std::strerror(errno)));
  }
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return Status::NotFound(fmt::format(
      "--program: cannot start '{}' in {}: {}; install it, or mend worker.program of the job",
      Printable(words[0]),
      directory.empty() ? "this folder" : Printable(directory),
      std::strerror(errno)));
}

}  // namespace ps::worker
