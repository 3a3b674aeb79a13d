#include "ps/base/flags.h"

#include <charconv>

namespace ps {
namespace {

Status Misuse(const std::string& what, const std::set<std::string>& known) {
  std::string text = what + "; flags:";
  for (const std::string& name : known) {
    text += " --" + name;
  }
  return Status::InvalidArgument(text);
}

bool ParseNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<Flags> Flags::Parse(int argc, const char* const* argv, const std::set<std::string>& known) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      return Misuse("'" + std::string(word) + "' is no flag", known);
    }
    const size_t equals = word.find('=');
    const std::string name(word.substr(2, equals == std::string_view::npos ? equals : equals - 2));
    if (!known.contains(name)) {
      return Misuse("unknown flag --" + name, known);
    }
    std::string value;
    if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      return Misuse("flag --" + name + " needs a value", known);
    }
    if (!flags.values_.emplace(name, std::move(value)).second) {
      return Misuse("flag --" + name + " is given twice", known);
    }
  }
  return flags;
}

Result<std::string> Flags::Text(const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) {
    return Status::InvalidArgument("flag --" + name + " is missing");
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
    return Status::InvalidArgument(
        "--" + name + " is '" + text + "'; allowed is a whole number from " +
        std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

}  // namespace ps
