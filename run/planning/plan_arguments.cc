#include "run/planning/plan_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "provisioner/model/exchange.h"
#include "ps/base/text.h"

namespace ps::run {
namespace {

constexpr int kCountMax = 100'000;

Status Expected(const std::string& flag, const std::string& what, const std::string& got) {
  return Status::InvalidArgument(fmt::format("{} wants {}; got '{}'", flag, what, Printable(got)));
}

std::optional<int> ParseCount(std::string_view text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && count >= 0 && count <= kCountMax ? std::optional(count) : std::nullopt;
}

/// "a=1,b=2" and more of it as single items.
std::vector<std::string> Split(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) {
    size_t begin = 0;
    while (begin <= text.size()) {
      const size_t end = std::min(text.find(',', begin), text.size());
      items.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return items;
}

/// Units from long to short.
struct TimeUnit {
  char letter;
  double seconds;
};

constexpr TimeUnit kTimeUnits[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
constexpr size_t kSecondsUnit = std::size(kTimeUnits) - 1;

}  // namespace

Result<double> ParseDuration(const std::string& flag, const std::string& text) {
  PS_ASSIGN(const double seconds, ParseDurationOrZero(flag, text));
  return seconds > 0 ? Result<double>(seconds)
                     : Expected(flag, "a time such as 40m, 2h, 1h30m, 90s or 2400, above 0", text);
}

Result<double> ParseDurationOrZero(const std::string& flag, const std::string& text) {
  const Status wrong = Expected(flag, "a time such as 40m, 2h, 1h30m, 90s or 2400", text);
  const char* at = text.data();
  const char* const end = at + text.size();
  double seconds = 0;
  size_t next_unit = 0;  // the longest that may follow
  bool has_unit = false;
  while (at < end) {
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value, std::chars_format::fixed);
    if (error != std::errc() || !(value >= 0)) {
      return wrong;
    }
    at = next;
    // A last number without a unit is in the unit that follows: 1h30 is 1h30m. Alone: seconds.
    size_t unit = has_unit ? next_unit : kSecondsUnit;
    if (at < end) {
      const auto* const found = std::ranges::find(kTimeUnits, *at, &TimeUnit::letter);
      unit = static_cast<size_t>(found - std::begin(kTimeUnits));
      ++at;
    }
    if (unit < next_unit || unit > kSecondsUnit) {
      return wrong;
    }
    seconds += value * kTimeUnits[unit].seconds;
    next_unit = unit + 1;
    has_unit = true;
  }
  if (!has_unit || !std::isfinite(seconds)) {
    return wrong;
  }
  return seconds;
}

namespace {

/// "TYPE=COUNT" or "TYPE:MINIBATCH=COUNT"; nothing: it is neither.
std::optional<provisioner::TypeCount> ParseTypeCount(const std::string& item) {
  const size_t equals = item.find('=');
  const std::optional<int> count =
      equals == std::string::npos ? std::nullopt : ParseCount(item.substr(equals + 1));
  const std::string name = item.substr(0, equals);
  const size_t colon = std::min(name.find(':'), name.size());
  const std::optional<int> minibatch =
      colon == name.size() ? std::optional(0) : ParseCount(name.substr(colon + 1));
  if (!count || colon == 0 || !minibatch || (colon < name.size() && *minibatch == 0)) {
    return std::nullopt;
  }
  return provisioner::TypeCount{name.substr(0, colon), *count, *minibatch};
}

Status AddOnce(
    const std::string& flag,
    const provisioner::TypeCount& count,
    std::vector<provisioner::TypeCount>* counts) {
  const bool is_twice = std::ranges::any_of(*counts, [&](const auto& other) {
    return other.instance_type == count.instance_type && other.minibatch == count.minibatch &&
           other.age_s == count.age_s;
  });
  if (is_twice) {
    return Status::InvalidArgument(fmt::format(
        "{} names {}{} twice{}",
        flag,
        Printable(count.instance_type),
        count.minibatch > 0 ? fmt::format(":{}", count.minibatch) : "",
        count.age_s > 0 ? " with the same age" : ""));
  }
  counts->push_back(count);
  return Status::Ok();
}

}  // namespace

Result<std::vector<provisioner::TypeCount>> ParseTypeCounts(
    const std::string& flag, const std::vector<std::string>& texts) {
  std::vector<provisioner::TypeCount> counts;
  for (const std::string& item : Split(texts)) {
    const std::optional<provisioner::TypeCount> count = ParseTypeCount(item);
    if (!count) {
      return Expected(flag, "TYPE=COUNT or TYPE:MINIBATCH=COUNT, as in g4dn.4xlarge=2", item);
    }
    PS_TRY(AddOnce(flag, *count, &counts));
  }
  return counts;
}

Result<std::vector<provisioner::TypeCount>> ParseHeld(
    const std::string& flag, const std::vector<std::string>& texts) {
  std::vector<provisioner::TypeCount> counts;
  for (const std::string& item : Split(texts)) {
    const size_t at = std::min(item.find('@'), item.size());
    std::optional<provisioner::TypeCount> count = ParseTypeCount(item.substr(0, at));
    if (!count) {
      return Expected(
          flag,
          "TYPE=COUNT, TYPE:MINIBATCH=COUNT or TYPE=COUNT@AGE, as in g4dn.4xlarge=2@3h",
          item);
    }
    if (at < item.size()) {
      PS_ASSIGN(count->age_s, ParseDuration(flag + ": the age after @", item.substr(at + 1)));
    }
    PS_TRY(AddOnce(flag, *count, &counts));
  }
  return counts;
}

Result<std::vector<std::string>> ParseTypes(
    const std::string& flag, const std::vector<std::string>& texts) {
  std::vector<std::string> types;
  for (std::string& item : Split(texts)) {
    if (item.empty() || item.find('=') != std::string::npos) {
      return Expected(flag, "TYPE, as in g4dn.4xlarge,g3.8xlarge", item);
    }
    if (std::ranges::count(types, item) > 0) {
      return Status::InvalidArgument(fmt::format("{} names {} twice", flag, Printable(item)));
    }
    types.push_back(std::move(item));
  }
  return types;
}

Result<std::vector<std::string>> ParseEncodings(
    const std::string& flag, const std::vector<std::string>& texts) {
  std::vector<std::string> encodings;
  for (const std::string& item : Split(texts)) {
    Result<std::string> encoding = provisioner::EncodingName(item);
    if (!encoding.ok()) {
      return Status(encoding.status()).Annotate(flag);
    }
    if (std::ranges::find(encodings, *encoding) == encodings.end()) {
      encodings.push_back(*std::move(encoding));
    }
  }
  return encodings;
}

Result<std::vector<provisioner::ServerRange>> ParseServerRanges(
    const std::string& flag, const std::vector<std::string>& texts) {
  std::vector<provisioner::ServerRange> ranges;
  for (const std::string& item : Split(texts)) {
    const size_t equals = std::min(item.find('='), item.size());
    const std::string range = equals == item.size() ? "1" : item.substr(equals + 1);
    const size_t dots = range.find("..");
    const std::optional<int> low = ParseCount(range.substr(0, dots));
    const std::optional<int> high =
        dots == std::string::npos ? low : ParseCount(range.substr(dots + 2));
    if (equals == 0 || !low || !high || *low < 1 || *high < *low) {
      return Expected(flag, "TYPE=HOSTS, as in m5.xlarge=2 or m5.xlarge=1..4", item);
    }
    ranges.push_back({item.substr(0, equals), *low, *high});
  }
  return ranges;
}

Result<std::vector<provisioner::FamilyQuota>> ParseFamilyQuotas(
    const std::string& flag, const std::vector<std::string>& texts) {
  std::vector<provisioner::FamilyQuota> quotas;
  for (const std::string& item : Split(texts)) {
    const size_t equals = std::min(item.find('='), item.size());
    const size_t colon = std::min(item.substr(0, equals).find(':'), equals);
    const std::string market =
        colon == equals ? "spot" : item.substr(colon + 1, equals - colon - 1);
    const std::optional<int> vcpus =
        equals == item.size() ? std::nullopt : ParseCount(item.substr(equals + 1));
    if (colon == 0 || !vcpus || (market != "spot" && market != "on-demand")) {
      return Expected(
          flag, "FAMILY=VCPUS or FAMILY:on-demand=VCPUS, as in P=64,Standard:on-demand=32", item);
    }
    const provisioner::FamilyQuota quota = {
        item.substr(0, colon),
        market == "spot" ? proto::Market::kSpot : proto::Market::kOnDemand,
        *vcpus};
    for (const provisioner::FamilyQuota& other : quotas) {
      if (other.family == quota.family && other.market == quota.market) {
        return Status::InvalidArgument(
            fmt::format("{} names {}, {}, twice", flag, Printable(quota.family), market));
      }
    }
    quotas.push_back(quota);
  }
  return quotas;
}

Result<provisioner::MarketChoice> ParseMarket(const std::string& text) {
  if (text == "spot") {
    return provisioner::MarketChoice::kSpot;
  }
  if (text == "on-demand") {
    return provisioner::MarketChoice::kOnDemand;
  }
  if (text == "both") {
    return provisioner::MarketChoice::kBoth;
  }
  return Expected("--market", "spot, on-demand or both", text);
}

}  // namespace ps::run
