#include "run/report/start_view.h"

#include <fmt/core.h>

#include <cstdint>

#include "provisioner/profile/start_times.h"
#include "ps/base/text.h"

namespace ps::run {

std::string StartsText(std::span<const proto::StartSample> starts) {
  std::string text;
  for (const auto& [type, times] : provisioner::StartTimesByType(starts)) {
    text += fmt::format(
        "{}{} until the first step of {} ({}{})",
        text.empty() ? "" : ", ",
        FormatDuration(times.median_s),
        Printable(type),
        Plural(static_cast<uint64_t>(times.count), "start"),
        times.count > 1 ? ", 9 in 10 within " + FormatDuration(times.high_s) : "");
  }
  return text;
}

void AddStarts(std::span<const proto::StartSample> starts, JsonWriter* json) {
  json->BeginList("starts");
  for (const auto& [type, times] : provisioner::StartTimesByType(starts)) {
    json->BeginObject();
    json->Field("type", type);
    json->Field("count", times.count);
    json->Field("median_s", times.median_s);
    json->Field("high_s", times.high_s);
    json->EndObject();
  }
  json->EndList();
}

}  // namespace ps::run
