#include "provisioner/model/exchange.h"

#include <fmt/core.h>

#include <charconv>
#include <string>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr double kParameterBytes = 4;  // of what a profile calls parameter_bytes
constexpr double kScaleBytes = 4.0 / 256;
constexpr double kSentBytes = 8;  // a value and its place
constexpr double kShareMost = 0.5;
constexpr std::string_view kTopK = "topk:";

struct Encoding {
  std::string_view name;
  double bytes = 0;  // of a value
  bool is_pulled = false;
};

constexpr Encoding kEncodings[] = {
    {"f32", 4, true},
    {"bf16", 2, true},
    {"int8", 1 + kScaleBytes, true},
    {"int4", 0.5 + kScaleBytes, false}};

/// Above 0 and at most a half; 0 for another text.
double ShareOf(std::string_view text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && share > 0 && share <= kShareMost ? share : 0;
}

}  // namespace

Result<double> BytesPerValue(std::string_view encoding, Direction direction) {
  const bool is_push = direction == Direction::kPush;
  std::string known;
  for (const Encoding& one : kEncodings) {
    if (!is_push && !one.is_pulled) {
      continue;
    }
    if (one.name == encoding) {
      return one.bytes;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  }
  if (is_push && encoding.starts_with(kTopK)) {
    if (const double share = ShareOf(encoding.substr(kTopK.size())); share > 0) {
      return kSentBytes * share;
    }
    return Status::InvalidArgument(fmt::format(
        "'{}': topk wants the share of the values that are sent, above 0 and at most {}, as in "
        "topk:0.01",
        Printable(std::string(encoding)),
        kShareMost));
  }
  return Status::InvalidArgument(fmt::format(
      "no encoding '{}' of {}; there are {}{}",
      Printable(std::string(encoding)),
      is_push ? "pushes" : "pulls",
      known,
      is_push ? ", topk:SHARE" : ""));
}

double ExchangeBytes(const proto::JobProfile& profile, double bytes_per_value) {
  return profile.parameter_bytes / kParameterBytes * bytes_per_value;
}

Exchange ExchangeOf(const proto::JobProfile& profile, const ExchangeChange& change) {
  const auto first = [](double a, double b, double c) { return a > 0 ? a : b > 0 ? b : c; };
  Exchange exchange;
  exchange.local_steps = change.local_steps > 0 ? change.local_steps : profile.local_steps;
  exchange.push_bytes = first(change.push_bytes, profile.push_bytes, profile.parameter_bytes);
  exchange.pull_bytes = first(change.pull_bytes, profile.pull_bytes, profile.parameter_bytes);
  exchange.is_longer = exchange.local_steps > 1 && profile.local_steps == 1 && profile.overlap > 0;
  exchange.overlap = exchange.is_longer ? 0 : profile.overlap;
  return exchange;
}

}  // namespace ps::provisioner
