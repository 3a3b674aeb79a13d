#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/process/manual.h"

namespace ps {

/// The flags of a program that other programs start: long, each with a value, `--name value` or
/// `--name=value`. psctl, which people type, has a command line library instead.
class Flags {
 public:
  /// `manual` lists the flags, as in {"--seat", "N", ...}. Errors: kInvalidArgument for an unknown
  /// or repeated flag, a missing value, or a word that is no flag; the text lists what is allowed.
  static Result<Flags> Parse(int argc, const char* const* argv, const Manual& manual);

  /// What to print instead of running when --help, -h, --man or --version is among the words; else
  /// empty.
  static std::string Asked(
      int argc, const char* const* argv, const Manual& manual, std::string_view version);

  bool Has(const std::string& name) const { return values_.contains(name); }

  /// Those that were given, by name without dashes.
  const std::map<std::string, std::string>& values() const { return values_; }

  /// Errors: kInvalidArgument when the flag is missing.
  Result<std::string> Text(const std::string& name) const;
  std::string TextOr(const std::string& name, const std::string& fallback) const;
  /// Errors: kInvalidArgument when it is missing or no whole number of [least, most].
  Result<uint64_t> Number(const std::string& name, uint64_t least, uint64_t most) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace ps
