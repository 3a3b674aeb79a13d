// EC2's instance metadata, version 2: "Spot instance interruption notices" and "Use IMDSv2" of the
// EC2 user guide.

#include <fmt/core.h>

#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/notice/metadata.h"
#include "ps/notice/notice_source.h"

namespace ps::notice {
namespace {

constexpr const char* kEc2Url = "http://169.254.169.254";
constexpr const char* kTokenPath = "/latest/api/token";
constexpr const char* kActionPath = "/latest/meta-data/spot/instance-action";
constexpr const char* kRebalancePath = "/latest/meta-data/events/recommendations/rebalance";
constexpr Duration kEc2Total = std::chrono::seconds(5);
constexpr Duration kEc2Period = std::chrono::seconds(5);  // as the guide recommends
constexpr Duration kTokenLife = std::chrono::hours(1);
constexpr Duration kRenewBefore = std::chrono::seconds(15);
constexpr size_t kTokenBytesMax = 1024;

class Ec2Source final : public NoticeSource {
 public:
  explicit Ec2Source(const NoticeSettings& settings)
      : url_(BaseUrl(settings.url, kEc2Url)),
        http_(MakeHttpClient(MetadataLimits(kEc2Total, settings), settings.is_cancelled)),
        time_(settings.time) {}

  std::string_view name() const override { return "ec2"; }

  Duration period() const override { return kEc2Period; }

  Result<std::optional<ProviderNotice>> Ask() override {
    PS_ASSIGN(const HttpReply action, Get(kActionPath));
    if (action.status == 200) {
      return ReadEc2Action(action);
    }
    if (action.status != 404) {
      return UnexpectedReply("EC2", kActionPath, action);
    }
    PS_ASSIGN(const HttpReply rebalance, Get(kRebalancePath));
    if (rebalance.status == 200) {
      return std::optional(ProviderNotice{"EC2 rebalance recommendation", {}, true});
    }
    if (rebalance.status != 404) {
      return UnexpectedReply("EC2", kRebalancePath, rebalance);
    }
    return std::optional<ProviderNotice>();
  }

 private:
  /// With a token. One that is refused may be from before the machine was moved: a second is tried.
  Result<HttpReply> Get(const char* path) {
    const bool is_fresh = token_.empty() || time_->Now() >= renew_at_;
    if (is_fresh) {
      PS_TRY(RenewToken());
    }
    Result<HttpReply> reply = GetWithToken(path);
    if (reply.ok() && reply->status == 401 && !is_fresh) {
      PS_TRY(RenewToken());
      reply = GetWithToken(path);
    }
    if (reply.ok() && reply->status == 401) {
      token_.clear();
    }
    return reply;
  }

  Result<HttpReply> GetWithToken(const char* path) {
    return http_->Do(MetadataRequest("GET", url_ + path, {"X-aws-ec2-metadata-token: " + token_}));
  }

  Status RenewToken() {
    token_.clear();
    const auto life_s = std::chrono::duration_cast<std::chrono::seconds>(kTokenLife).count();
    PS_ASSIGN(
        const HttpReply reply,
        http_->Do(MetadataRequest(
            "PUT",
            url_ + kTokenPath,
            {fmt::format("X-aws-ec2-metadata-token-ttl-seconds: {}", life_s)})));
    if (reply.status != 200) {
      return UnexpectedReply("EC2", kTokenPath, reply);
    }
    const std::string_view token = TextOf(reply);
    // It becomes a header, so it may have no line of its own.
    if (token.empty() || token.size() > kTokenBytesMax || !IsHeaderText(token)) {
      return Status::Corruption("EC2's metadata service gives an invalid token");
    }
    token_ = token;
    renew_at_ = time_->Now() + kTokenLife - kRenewBefore;
    return Status::Ok();
  }

  const std::string url_;
  const std::unique_ptr<HttpClient> http_;
  const TimeSource* const time_;
  std::string token_;
  TimePoint renew_at_{};
};

}  // namespace

Result<std::optional<ProviderNotice>> ReadEc2Action(const HttpReply& reply) {
  PS_ASSIGN(
      const JsonValue document,
      ParseJson(TextOf(reply), fmt::format("EC2's answer to {}", kActionPath)));
  const JsonValue* const action = document.At("action");
  if (action == nullptr || action->kind != JsonValue::Kind::kText) {
    return Status::Corruption(fmt::format("EC2's answer to {} has no action", kActionPath));
  }
  ProviderNotice notice;
  notice.what = fmt::format("EC2 spot interruption ({})", Printable(action->text));
  const JsonValue* const time = document.At("time");
  const bool has_time = time != nullptr && !IsSameName(action->text, "hibernate");
  notice.grace = GraceUntil(has_time ? ParseRfc3339(time->text) : std::nullopt, reply);
  return std::optional(std::move(notice));
}

std::unique_ptr<NoticeSource> MakeEc2Source(const NoticeSettings& settings) {
  return std::make_unique<Ec2Source>(settings);
}

}  // namespace ps::notice
