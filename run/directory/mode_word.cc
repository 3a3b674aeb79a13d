#include "run/directory/mode_word.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "ps/base/text.h"
#include "ps/proto/job/job_config.h"

namespace ps::run {
namespace {

Status WrongMode(const std::string& word, const std::string& why) {
  return Status::InvalidArgument(fmt::format(
      "mode wants async, bsp, ssp or a staleness bound as in: psctl mode ssp:3; {}, got '{}'",
      why,
      Printable(word)));
}

}  // namespace

Result<proto::ModeChoice> ParseMode(const std::string& word) {
  const size_t colon = word.find(':');
  const std::string_view name = std::string_view(word).substr(0, colon);
  const auto* const it = std::find(proto::kModeNames.begin(), proto::kModeNames.end(), name);
  if (it == proto::kModeNames.end()) {
    return WrongMode(word, "there is no other");
  }
  proto::ModeChoice wanted;
  wanted.mode = static_cast<proto::Mode>(it - proto::kModeNames.begin());
  const bool is_ssp = wanted.mode == proto::Mode::kSsp;
  wanted.staleness_max = is_ssp ? proto::TrainConfig().staleness_max : 0;
  if (colon == std::string::npos) {
    return wanted;
  }
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data() + colon + 1, end, wanted.staleness_max);
  if (!is_ssp || error != std::errc() || rest != end || wanted.staleness_max == 0) {
    return WrongMode(
        word, is_ssp ? "the bound is a whole number from 1 on" : "only ssp has a bound");
  }
  return wanted;
}

}  // namespace ps::run
