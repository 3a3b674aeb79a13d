// Compute Engine's metadata server: "Spot VMs, preemption process" and "Query VM metadata, wait for
// change" of its documentation.

#include <fmt/core.h>

#include <utility>

#include "ps/base/text.h"
#include "ps/notice/metadata.h"
#include "ps/notice/notice_source.h"

namespace ps::notice {
namespace {

constexpr const char* kGcpUrl = "http://metadata.google.internal";
constexpr const char* kPath = "/computeMetadata/v1/instance/preempted";
/// The machine is switched off so long after the answer; "best effort".
constexpr Duration kGrace = std::chrono::seconds(30);
/// A change is told at once to whoever is waiting. Polling would often come too late.
constexpr int kWaitS = 30;
constexpr Duration kGcpTotal = std::chrono::seconds(kWaitS + 10);
/// So that a server that does not wait is not asked all the time.
constexpr Duration kGcpPeriod = std::chrono::seconds(1);
constexpr size_t kEtagBytesMax = 256;

constexpr const char* kEtagCharacters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/// It becomes a part of an address. Empty: there is none that may.
std::string EtagOf(const HttpReply& reply) {
  const auto etag = reply.headers.find("etag");
  const bool is_sane = etag != reply.headers.end() && etag->second.size() <= kEtagBytesMax &&
                       etag->second.find_first_not_of(kEtagCharacters) == std::string::npos;
  return is_sane ? etag->second : "";
}

class GcpSource final : public NoticeSource {
 public:
  explicit GcpSource(const NoticeSettings& settings)
      : url_(BaseUrl(settings.url, kGcpUrl)),
        http_(MakeHttpClient(MetadataLimits(kGcpTotal, settings), settings.is_cancelled)) {}

  std::string_view name() const override { return "gcp"; }

  Duration period() const override { return kGcpPeriod; }

  Result<std::optional<ProviderNotice>> Ask() override {
    // The first question is answered at once, and says from where to wait.
    std::string url = url_ + kPath;
    if (!etag_.empty()) {
      url += fmt::format("?wait_for_change=true&timeout_sec={}&last_etag={}", kWaitS, etag_);
    }
    PS_ASSIGN(const HttpReply reply, http_->Do(MetadataRequest("GET", url, {kFlavor})));
    etag_.clear();  // whatever is wrong: the next question waits for nothing
    PS_ASSIGN(GcpAnswer answer, ReadGcpAnswer(reply).Annotate(url_));
    etag_ = std::move(answer.etag);
    return std::move(answer.notice);
  }

 private:
  static constexpr const char* kFlavor = "Metadata-Flavor: Google";

  const std::string url_;
  const std::unique_ptr<HttpClient> http_;
  std::string etag_;
};

}  // namespace

Result<GcpAnswer> ReadGcpAnswer(const HttpReply& reply) {
  const auto flavor = reply.headers.find("metadata-flavor");
  if (flavor == reply.headers.end() || !IsSameName(flavor->second, "Google")) {
    return Status::Unavailable("this is not Compute Engine's metadata server");
  }
  if (reply.status != 200) {
    return UnexpectedReply("Compute Engine", kPath, reply);
  }
  GcpAnswer answer;
  answer.etag = EtagOf(reply);
  std::string_view text = TextOf(reply);
  text = text.substr(0, text.find_last_not_of(" \r\n") + 1);
  if (IsSameName(text, "TRUE")) {
    answer.notice = ProviderNotice{"Compute Engine preemption", kGrace, false};
  } else if (!IsSameName(text, "FALSE")) {
    return Status::Corruption(
        fmt::format("Compute Engine's answer to {} is neither TRUE nor FALSE", kPath));
  }
  return answer;
}

std::unique_ptr<NoticeSource> MakeGcpSource(const NoticeSettings& settings) {
  return std::make_unique<GcpSource>(settings);
}

}  // namespace ps::notice
