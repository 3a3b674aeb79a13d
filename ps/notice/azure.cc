// Azure's scheduled events: "Azure Metadata Service: Scheduled Events for Linux VMs" of its
// documentation.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/notice/metadata.h"
#include "ps/notice/notice_source.h"

namespace ps::notice {
namespace {

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
constexpr size_t kTypeBytesMax = 40;
/// Most ignored events of an answer that are logged.
constexpr size_t kIgnoredMax = 4;
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

/// Why the event does not end the machine; empty when it does. Events name the machines that they
/// are of, and all of an availability set see them.
std::string WhyNot(const JsonValue& event, std::string_view machine) {
  const std::string_view type = TextAt(event, "EventType");
  if (std::ranges::none_of(kEnds, [&](std::string_view end) { return IsSameName(end, type); })) {
    return "which ends no machine";
  }
  if (IsSameName(TextAt(event, "EventStatus"), "Completed")) {
    return "which is over";
  }
  const JsonValue* const resources = event.Find("Resources");
  if (resources == nullptr || resources->kind != JsonValue::Kind::kList ||
      resources->children.empty()) {
    return "which names no machine";
  }
  std::string others;
  for (const JsonValue& name : resources->children) {
    if (name.kind != JsonValue::Kind::kText) {
      continue;
    }
    if (IsSameName(name.text, machine)) {
      return "";
    }
    others += (others.empty() ? "" : ", ") + Printable(Clip(name.text, kNameBytesMax));
  }
  return "which is of " + others;
}

std::string DescribeEvent(const JsonValue& event) {
  return fmt::format(
      "Azure event ({})", Printable(Clip(TextAt(event, "EventType"), kTypeBytesMax)));
}

/// One that has started has no time any more.
ProviderNotice NoticeOf(const JsonValue& event, const HttpReply& reply) {
  const std::string when(TextAt(event, "NotBefore"));
  const std::optional<int64_t> date = ParseHttpDate(when);
  return {DescribeEvent(event), GraceUntil(date ? date : ParseRfc3339(when), reply), false};
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
    PS_ASSIGN(AzureEvents events, ReadAzureEvents(reply, own_name_));
    is_on_ = true;
    ignored_ = std::move(events.ignored);
    return std::move(events.notice);
  }

  std::string ignored() const override { return ignored_; }

  std::string machine() const override { return own_name_; }

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
        name.find_first_of(kNoName) != std::string_view::npos || !IsHeaderText(name)) {
      return Status::Corruption("Azure's metadata service gives an invalid name");
    }
    own_name_ = name;
    return Status::Ok();
  }

  const std::string url_;
  const std::unique_ptr<HttpClient> first_;
  const std::unique_ptr<HttpClient> http_;
  bool is_on_ = false;
  std::string own_name_;
  std::string ignored_;
};

}  // namespace

Result<AzureEvents> ReadAzureEvents(const HttpReply& reply, std::string_view machine) {
  PS_ASSIGN(const JsonValue document, ParseJson(TextOf(reply), "Azure's list of scheduled events"));
  const JsonValue* const events =
      document.kind == JsonValue::Kind::kObject ? document.Find("Events") : nullptr;
  if (events == nullptr || events->kind != JsonValue::Kind::kList) {
    return Status::Corruption("Azure's list of scheduled events has no Events");
  }
  AzureEvents read;
  size_t ignored = 0;
  for (const JsonValue& event : events->children) {
    if (event.kind != JsonValue::Kind::kObject) {
      continue;
    }
    if (const std::string why = WhyNot(event, machine); !why.empty()) {
      if (++ignored <= kIgnoredMax) {
        read.ignored += fmt::format("{}{}, {}", ignored > 1 ? "; " : "", DescribeEvent(event), why);
      }
      continue;
    }
    ProviderNotice notice = NoticeOf(event, reply);
    if (!read.notice || notice.grace < read.notice->grace) {
      read.notice = std::move(notice);
    }
  }
  return read;
}

std::unique_ptr<NoticeSource> MakeAzureSource(const NoticeSettings& settings) {
  return std::make_unique<AzureSource>(settings);
}

}  // namespace ps::notice
