#include <algorithm>
#include <string>
#include <string_view>

#include "ps/base/check.h"
#include "ps/base/text.h"
#include "ps/notice/metadata.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {

namespace {

Result<std::optional<notice::ProviderNotice>> Read(const HttpReply& reply, bool is_azure) {
  if (!is_azure) {
    return notice::ReadEc2Action(reply);
  }
  PS_ASSIGN(notice::AzureEvents events, notice::ReadAzureEvents(reply, "vm-1"));
  PS_CHECK(Printable(events.ignored) == events.ignored) << events.ignored;
  return std::move(events.notice);
}

}  // namespace

bool FuzzNotice(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  const bool is_azure = input.front() % 2 == 1;
  const auto rest = input.subspan(1);
  const auto end = std::find(rest.begin(), rest.end(), '\n');
  HttpReply reply;
  reply.status = 200;
  reply.headers["date"] = std::string(rest.begin(), end);
  const auto body = std::as_bytes(std::span(end == rest.end() ? end : end + 1, rest.end()));
  reply.body.assign(body.begin(), body.end());
  const auto notice = Read(reply, is_azure);
  if (!notice.ok()) {
    const std::string_view message = notice.status().message();
    PS_CHECK(!message.empty() && message.find('\n') == std::string_view::npos) << message;
    return false;
  }
  PS_CHECK(is_azure || notice->has_value()) << "an action of EC2 that says nothing";
  if (notice->has_value()) {
    PS_CHECK(Printable((*notice)->what) == (*notice)->what) << (*notice)->what;
    PS_CHECK((*notice)->grace >= notice::kAtOnce) << "less time than none";
    PS_CHECK((*notice)->grace <= std::chrono::hours(24)) << "nobody announces more";
  }
  return true;
}

}  // namespace ps::fuzz
