#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/http/date.h"
#include "ps/http/http.h"
#include "ps/notice/notice_source.h"

// What the three metadata services have in common.

namespace ps::notice {

/// What is left when the provider does not say how long: enough to say goodbye.
inline constexpr Duration kAtOnce = std::chrono::seconds(1);

/// Nobody announces more.
inline constexpr Duration kGraceMax = std::chrono::hours(24);

/// Longest answer that is read; the largest documents of events are a few KiB.
inline constexpr size_t kMetadataBytesMax = size_t{256} << 10U;

/// `total` limits the whole request. Its rate has no limit, since a service may wait.
HttpLimits MetadataLimits(Duration total, const NoticeSettings& settings);

HttpRequest MetadataRequest(std::string method, std::string url, std::vector<std::string> headers);

std::string_view TextOf(const HttpReply& reply);

/// Whether the value of a header may have these bytes: ASCII that shows, and is no control
/// character.
bool IsHeaderText(std::string_view text);

/// Whether two names of a provider are the same: none of the three tells letter cases of ASCII
/// apart.
bool IsSameName(std::string_view a, std::string_view b);

/// `settings_url` when it is not empty, else `own`; with a scheme, and no slash at its end.
std::string BaseUrl(const std::string& settings_url, const std::string& own);

/// kUnavailable: "EC2's metadata service answers 500 to /latest/...".
Status UnexpectedReply(std::string_view service, std::string_view path, const HttpReply& reply);

/// From the moment that the service gave its reply to `when`, both by the service's clock. kAtOnce
/// when either is not known, or the moment has passed.
Duration GraceUntil(std::optional<int64_t> when, const HttpReply& reply);

/// EC2's spot/instance-action: {"action": "terminate", "time": "2017-09-18T08:22:00Z"}. Hibernation
/// begins at once. Errors: kCorruption for what it lacks; those of ParseJson.
Result<std::optional<ProviderNotice>> ReadEc2Action(const HttpReply& reply);

struct AzureEvents {
  std::optional<ProviderNotice> notice;  // the first event that ends the machine
  std::string ignored;                   // as NoticeSource::ignored
};

/// Azure's scheduled events, as the machine of that name understands them. Errors: the same.
Result<AzureEvents> ReadAzureEvents(const HttpReply& reply, std::string_view machine);

struct GcpAnswer {
  std::optional<ProviderNotice> notice;
  std::string etag;  // from which to wait for a change; empty: the next question waits for nothing
};

/// Compute Engine's instance/preempted: TRUE or FALSE. Errors: kUnavailable for a server of
/// somebody else's, or another status than 200; kCorruption.
Result<GcpAnswer> ReadGcpAnswer(const HttpReply& reply);

}  // namespace ps::notice
