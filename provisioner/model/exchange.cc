#include "provisioner/model/exchange.h"

#include <fmt/core.h>

#include <cmath>
#include <string>

#include "ps/base/text.h"
#include "ps/codec/encoding.h"
#include "ps/proto/exchange.h"

namespace ps::provisioner {
namespace {

constexpr double kParameterBytes = 4;  // of what a profile calls parameter_bytes

/// All values are taken in one piece: parts of frames add some scales.
uint64_t ValuesOf(const proto::JobProfile& profile) {
  return static_cast<uint64_t>(std::llround(profile.parameter_bytes / kParameterBytes));
}

}  // namespace

Result<std::string> EncodingName(std::string_view text) {
  PS_ASSIGN(const codec::Encoding parsed, codec::ParseEncoding(text));
  return parsed.ToText();
}

Result<double> PushBytes(const proto::JobProfile& profile, std::string_view encoding) {
  PS_ASSIGN(const codec::Encoding parsed, codec::ParseEncoding(encoding));
  return static_cast<double>(parsed.SizeOf(ValuesOf(profile)));
}

Result<double> PullBytes(const proto::JobProfile& profile, std::string_view encoding) {
  PS_ASSIGN(const codec::Encoding parsed, codec::ParseEncoding(encoding));
  if (parsed.kind == codec::EncodingKind::kTopk) {
    return Status::InvalidArgument(fmt::format(
        "parameters are not pulled as {}; allowed: f32, bf16, int8 or int4",
        Printable(std::string(encoding))));
  }
  return proto::PulledBytesOf(parsed, ValuesOf(profile));
}

bool PullsDifferences(std::string_view encoding) {
  const Result<codec::Encoding> parsed = codec::ParseEncoding(encoding);
  return parsed.ok() &&
         (parsed->kind == codec::EncodingKind::kInt8 || parsed->kind == codec::EncodingKind::kInt4);
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
