#include "ps/process/flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "ps/base/text.h"

namespace ps {
namespace {

/// The flags' names without dashes.
std::vector<std::string> NamesOf(const Manual& manual) {
  std::vector<std::string> names;
  for (const ManualSection& section : manual.sections) {
    for (const ManualFlag& flag : section.flags) {
      if (!flag.value.empty()) {
        names.push_back(flag.name.substr(2));
      }
    }
  }
  return names;
}

Status Misuse(const std::string& what, const Manual& manual) {
  return Status::InvalidArgument(fmt::format("{}; try {} --help", what, manual.program));
}

bool ParseNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<Flags> Flags::Parse(int argc, const char* const* argv, const Manual& manual) {
  const std::vector<std::string> known = NamesOf(manual);
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      return Misuse("'" + Printable(word) + "' is no flag", manual);
    }
    const size_t equals = word.find('=');
    const std::string name(word.substr(2, equals == std::string_view::npos ? equals : equals - 2));
    if (std::ranges::find(known, name) == known.end()) {
      const std::string nearest = NearestName(name, known);
      const std::string what = "unknown flag --" + Printable(name);
      return nearest.empty()
                 ? Misuse(what, manual)
                 : Status::InvalidArgument(fmt::format("{}; did you mean --{}?", what, nearest));
    }
    std::string value;
    if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      return Misuse("flag --" + name + " needs a value", manual);
    }
    if (!flags.values_.emplace(name, std::move(value)).second) {
      return Misuse("flag --" + name + " is given twice", manual);
    }
  }
  return flags;
}

std::string Flags::Asked(
    int argc, const char* const* argv, const Manual& manual, std::string_view version) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      return RenderHelp(manual);
    }
    if (word == "--man") {
      return RenderManPage(manual, version);
    }
    if (word == "--version") {
      return manual.program + " " + std::string(version) + "\n";
    }
  }
  return "";
}

Result<std::string> Flags::Text(const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) {
    return Status::InvalidArgument(fmt::format("flag --{} is missing", name));
  }
  return it->second;
}

std::string Flags::TextOr(const std::string& name, const std::string& fallback) const {
  const auto it = values_.find(name);
  return it == values_.end() ? fallback : it->second;
}

Result<uint64_t> Flags::Number(const std::string& name, uint64_t least, uint64_t most) const {
  PS_ASSIGN(const std::string text, Text(name));
  uint64_t number = 0;
  if (!ParseNumber(text, &number) || number < least || number > most) {
    return Status::InvalidArgument(fmt::format(
        "--{} is '{}'; allowed is a whole number from {} to {}", name, text, least, most));
  }
  return number;
}

}  // namespace ps
