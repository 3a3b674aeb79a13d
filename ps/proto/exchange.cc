#include "ps/proto/exchange.h"

#include <string>

#include "ps/base/check.h"

namespace ps::proto {
namespace {

Encoding Parsed(const std::string& text) {
  const Result<Encoding> encoding = ps::codec::ParseEncoding(text);
  PS_CHECK(encoding.ok()) << encoding.status();
  return *encoding;
}

}  // namespace

Encoding PushEncodingOf(const JobConfig& config) {
  if (config.train.gradient_dtype == GradientDtype::kBf16) {
    return {ps::codec::EncodingKind::kBf16};
  }
  return config.exchange.push == kAutoWord ? Encoding() : Parsed(config.exchange.push);
}

bool IsEncodedByDevice(const JobConfig& config) {
  return config.train.gradient_dtype == GradientDtype::kBf16;
}

bool HasErrorFeedback(const JobConfig& config) {
  return config.exchange.error_feedback && !IsEncodedByDevice(config) &&
         PushEncodingOf(config).is_lossy();
}

Encoding PullEncodingOf(const JobConfig& config) {
  return Parsed(config.exchange.pull);
}

double PulledBytesOf(Encoding pull, uint64_t count) {
  const auto bytes = static_cast<double>(pull.SizeOf(count));
  if (!HasDifferences(pull)) {
    return bytes;
  }
  const auto whole = static_cast<double>(WholeEncodingOf(pull).SizeOf(count));
  return (bytes * kDifferencesInARow + whole) / (kDifferencesInARow + 1);
}

StepSettings StepSettingsOf(const JobConfig& config) {
  return {
      PushEncodingOf(config),
      PullEncodingOf(config),
      config.exchange.error_feedback && !IsEncodedByDevice(config),
      config.train.local_steps,
      config.train.local_steps_by_speed};
}

AutoSettings AutoSettingsOf(const JobConfig& config) {
  return {config.exchange.push == kAutoWord, config.train.adapts_local_steps};
}

}  // namespace ps::proto
