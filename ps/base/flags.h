#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "ps/base/status.h"

namespace ps {

/// The flags of a program that other programs start: long, each with a value, `--name value` or
/// `--name=value`. psctl, which people type, has a command line library instead.
class Flags {
 public:
  /// `known` are the names without dashes. Errors: kInvalidArgument for an unknown or repeated
  /// flag, a missing value, or a word that is no flag; the text lists what is allowed.
  static Result<Flags> Parse(int argc, const char* const* argv, const std::set<std::string>& known);

  bool Has(const std::string& name) const { return values_.contains(name); }

  /// Errors: kInvalidArgument when the flag is missing.
  Result<std::string> Text(const std::string& name) const;
  std::string TextOr(const std::string& name, const std::string& fallback) const;
  /// Errors: kInvalidArgument when it is missing or no whole number of [least, most].
  Result<uint64_t> Number(const std::string& name, uint64_t least, uint64_t most) const;

 private:
  std::map<std::string, std::string> values_;
};

/// "10.0.0.7:4711" or "[::1]:4711".
struct HostPort {
  std::string host;
  uint32_t port = 0;
};

/// Errors: kInvalidArgument.
Result<HostPort> ParseHostPort(std::string_view text);

/// The file's text without a trailing newline. Errors: kNotFound, kIo; kInvalidArgument when it has
/// more than `bytes_max` bytes.
Result<std::string> ReadSmallFile(const std::string& path, size_t bytes_max);

}  // namespace ps
