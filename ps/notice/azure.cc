// Azure's scheduled events: "Azure Metadata Service: Scheduled Events for Linux VMs" of its
// documentation.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ps/base/text.h"
#include "ps/notice/metadata.h"
#include "ps/notice/notice_source.h"
#include "ps/proto/json_dom.h"

namespace ps::notice {
namespace {

using proto::JsonValue;

constexpr const char* kAzureUrl = "http://169.254.169.254";
constexpr const char* kEventsPath = "/metadata/scheduledevents?api-version=2020-07-01";
constexpr const char* kNamePath =
    "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
constexpr const char* kHeader = "Metadata: true";
/// The first question switches the service on, which takes up to two minutes.
constexpr Duration kAzureFirstTotal = std::chrono::seconds(130);
constexpr Duration kAzureTotal = std::chrono::seconds(10);
constexpr Duration kAzurePeriod = std::chrono::seconds(1);  // as the documentation recommends
constexpr size_t kNameBytesMax = 256;
/// No machine has these in its name; a page that asks to log in has. Its text would never be the
/// name in an event, so that no notice came.
constexpr std::string_view kNoName = " \\/\"[]:|<>+=;,?*@&";
/// After these the processes of the machine are gone. A frozen one goes on.
constexpr std::array<std::string_view, 4> kEnds = {"Preempt", "Terminate", "Reboot", "Redeploy"};

std::string_view TextAt(const JsonValue& event, std::string_view name) {
  const JsonValue* const value = event.Find(name);
  return value != nullptr && value->kind == JsonValue::Kind::kText ? std::string_view(value->text)
                                                                   : std::string_view();
}

/// Events name the machines that they are of: all of an availability set see them.
bool EndsMachine(const JsonValue& event, std::string_view machine) {
  if (event.kind != JsonValue::Kind::kObject ||
      std::find(kEnds.begin(), kEnds.end(), TextAt(event, "EventType")) == kEnds.end()) {
    return false;
  }
  const JsonValue* const resources = event.Find("Resources");
  return resources != nullptr && resources->kind == JsonValue::Kind::kList &&
         std::any_of(
             resources->children.begin(), resources->children.end(), [&](const JsonValue& name) {
               return name.kind == JsonValue::Kind::kText && name.text == machine;
             });
}

/// One that has started has no time any more.
ProviderNotice NoticeOf(const JsonValue& event, const HttpReply& reply) {
  return {
      fmt::format("Azure event ({})", TextAt(event, "EventType")),
      GraceUntil(ParseHttpDate(std::string(TextAt(event, "NotBefore"))), reply),
      false};
}

class AzureSource final : public NoticeSource {
 public:
  explicit AzureSource(const NoticeSettings& settings)
      : url_(BaseUrl(settings.url, kAzureUrl)),
        first_(MakeHttpClient(MetadataLimits(kAzureFirstTotal, {}), settings.is_cancelled)),
        http_(MakeHttpClient(MetadataLimits(kAzureTotal, settings), settings.is_cancelled)) {}

  std::string_view name() const override { return "azure"; }

  Duration period() const override { return kAzurePeriod; }

  Result<std::optional<ProviderNotice>> Ask() override {
    if (own_name_.empty()) {
      PS_TRY(AskName());
    }
    PS_ASSIGN(const HttpReply reply, Get(kEventsPath));
    if (reply.status != 200) {
      return UnexpectedReply("Azure", kEventsPath, reply);
    }
    Result<std::optional<ProviderNotice>> notice = ReadAzureEvents(reply, own_name_);
    is_on_ = is_on_ || notice.ok();
    return notice;
  }

 private:
  Result<HttpReply> Get(const char* path) {
    return (is_on_ ? http_ : first_)->Do(MetadataRequest("GET", url_ + path, {kHeader}));
  }

  Status AskName() {
    PS_ASSIGN(const HttpReply reply, Get(kNamePath));
    if (reply.status != 200) {
      return UnexpectedReply("Azure", kNamePath, reply);
    }
    const std::string_view name = TextOf(reply);
    if (name.empty() || name.size() > kNameBytesMax ||
        name.find_first_of(kNoName) != std::string_view::npos || Printable(name) != name) {
      return Status::Corruption("Azure's metadata service gives a name that is none");
    }
    own_name_ = name;
    return Status::Ok();
  }

  const std::string url_;
  const std::unique_ptr<HttpClient> first_;
  const std::unique_ptr<HttpClient> http_;
  bool is_on_ = false;
  std::string own_name_;
};

}  // namespace

Result<std::optional<ProviderNotice>> ReadAzureEvents(
    const HttpReply& reply, std::string_view machine) {
  PS_ASSIGN(
      const JsonValue document,
      proto::ParseJson(TextOf(reply), "Azure's list of scheduled events"));
  const JsonValue* const events =
      document.kind == JsonValue::Kind::kObject ? document.Find("Events") : nullptr;
  if (events == nullptr || events->kind != JsonValue::Kind::kList) {
    return Status::Corruption("Azure's list of scheduled events has no Events");
  }
  std::optional<ProviderNotice> first;  // of those that end this machine
  for (const JsonValue& event : events->children) {
    if (EndsMachine(event, machine)) {
      ProviderNotice notice = NoticeOf(event, reply);
      first = !first || notice.grace < first->grace ? std::move(notice) : std::move(first);
    }
  }
  return first;
}

std::unique_ptr<NoticeSource> MakeAzureSource(const NoticeSettings& settings) {
  return std::make_unique<AzureSource>(settings);
}

}  // namespace ps::notice
