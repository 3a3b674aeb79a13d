// What the status page takes from outside: orders, Host headers, and the files that it shows.

#include <string>
#include <string_view>

#include "ps/base/check.h"
#include "ps/json/json_value.h"
#include "run/page/history.h"
#include "run/page/page_access.h"
#include "run/page/page_control.h"
#include "run/page/page_source.h"
#include "run/page/prometheus.h"
#include "run/page/state_json.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

bool TakesOrder(const std::string& text) {
  int asked = 0;
  const run::PageSteering steering = {
      .ask = [&asked](const proto::Message& /*request*/) -> Result<proto::Message> {
        ++asked;
        return proto::Message(proto::PauseReply{});
      },
      .checkpoint_now = []() -> Result<uint64_t> { return uint64_t{1}; }};
  const Result<std::string> said = run::DoAsAsked(text, steering);
  PS_CHECK(asked <= 1) << asked;
  PS_CHECK(said.ok() || !said.status().message().empty());
  return said.ok();
}

bool ShowsSummary(const std::string& text) {
  const auto status =
      std::make_shared<const proto::JobStatus>(run::StatusFromSummary(text, "summary.json"));
  const run::PageLook look(status, "");
  PS_CHECK(ParseJson(look.json(), "state").ok()) << look.json();
  PS_CHECK(!run::RenderPrometheus(*status, "fuzz", 0).empty());
  return !status->name.empty();
}

}  // namespace

bool FuzzPage(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  const std::string text(input.begin() + 1, input.end());
  switch (input.front() % 4) {
    case 0:
      return TakesOrder(text);
    case 1: {
      run::HistoryPoint point;
      const bool is_point = run::HistoryPointFromLine(text, &point);
      PS_CHECK(!is_point || point.unix_s > 0);
      return is_point;
    }
    case 2:
      return ShowsSummary(text);
    default:
      return run::IsOwnHost(text, "machine");
  }
}

}  // namespace ps::fuzz
