#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/proto/job/job_config.h"
#include "tests/proto/file_checks.h"

// A job that the tests change a little.

namespace ps::tests {

inline constexpr std::string_view kSmall = R"({
  "name": "small",
  "model": {"name": "mlp"},
  "data": {"directory": "."},
  "workers": [{}]
})";

/// "no error" when there is none.
inline std::string ErrorOf(
    std::string_view text, const std::vector<proto::ConfigOverride>& overrides = {}) {
  return ErrorOf(proto::ParseJobConfig(text, "job.json", overrides));
}

/// The small job with its model, data or workers line replaced; line and column stay known.
inline std::string Replaced(const std::string& from, const std::string& to) {
  std::string text(kSmall);
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace ps::tests
