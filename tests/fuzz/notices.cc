#include <algorithm>
#include <string>
#include <string_view>

#include "ps/base/check.h"
#include "ps/base/text.h"
#include "ps/notice/metadata.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {

namespace {

enum Provider : uint8_t { kEc2, kAzure, kGcp, kProviders };

Result<std::optional<notice::ProviderNotice>> ReadNotice(
    const HttpReply& reply, Provider provider) {
  if (provider == kEc2) {
    return notice::ReadEc2Action(reply);
  }
  if (provider == kGcp) {
    PS_ASSIGN(notice::GcpAnswer answer, notice::ReadGcpAnswer(reply));
    PS_CHECK(Printable(answer.etag) == answer.etag) << answer.etag;
    PS_CHECK(answer.etag.find_first_of(" &?#/%") == std::string::npos) << answer.etag;
    return std::move(answer.notice);
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
  const auto provider = static_cast<Provider>(input.front() % kProviders);
  const auto rest = input.subspan(1);
  const auto end = std::find(rest.begin(), rest.end(), '\n');
  HttpReply reply;
  reply.status = 200;
  reply.headers["date"] = std::string(rest.begin(), end);
  reply.headers["etag"] = reply.headers["date"];
  reply.headers["metadata-flavor"] = "Google";
  const auto body = std::as_bytes(std::span(end == rest.end() ? end : end + 1, rest.end()));
  reply.body.assign(body.begin(), body.end());
  const auto notice = ReadNotice(reply, provider);
  if (!notice.ok()) {
    const std::string_view message = notice.status().message();
    PS_CHECK(!message.empty() && message.find('\n') == std::string_view::npos) << message;
    return false;
  }
  PS_CHECK(provider != kEc2 || notice->has_value()) << "an action of EC2 that says nothing";
  if (notice->has_value()) {
    PS_CHECK(Printable((*notice)->what) == (*notice)->what) << (*notice)->what;
    PS_CHECK((*notice)->grace >= notice::kAtOnce) << "less time than none";
    PS_CHECK((*notice)->grace <= std::chrono::hours(24)) << "nobody announces more";
  }
  return true;
}

}  // namespace ps::fuzz
