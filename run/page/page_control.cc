#include "run/page/page_control.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>

#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/proto/limits.h"
#include "run/directory/mode_word.h"

namespace ps::run {
namespace {

constexpr double kGraceDefault_s = 30;
constexpr double kGraceMax_s = 86'400;

/// The members of a request, each of which is known and of its kind.
class Order {
 public:
  static Result<Order> Read(std::string_view body) {
    PS_ASSIGN(JsonValue value, ParseJson(body, "request"));
    if (value.kind != JsonValue::Kind::kObject) {
      return Status::InvalidArgument("a request is an object: {\"do\": \"pause\"}");
    }
    return Order(std::move(value));
  }

  /// Errors: another member than these and "do" is there.
  Status Allow(std::initializer_list<std::string_view> names) const {
    for (const JsonValue& member : value_.children) {
      bool is_known = member.key == "do";
      for (const std::string_view name : names) {
        is_known = is_known || member.key == name;
      }
      if (!is_known) {
        return Status::InvalidArgument(
            fmt::format("{} is no member of this request", Quoted(member.key)));
      }
    }
    return Status::Ok();
  }

  bool Has(std::string_view name) const { return value_.Find(name) != nullptr; }

  /// "" where it is not there.
  Result<std::string> Text(std::string_view name) const {
    const JsonValue* const value = value_.Find(name);
    if (value == nullptr) {
      return std::string();
    }
    if (value->kind != JsonValue::Kind::kText) {
      return Status::InvalidArgument(fmt::format("{} is a text", name));
    }
    return value->text;
  }

  Result<bool> Bool(std::string_view name) const {
    const JsonValue* const value = value_.Find(name);
    if (value != nullptr && value->kind != JsonValue::Kind::kBool) {
      return Status::InvalidArgument(fmt::format("{} is true or false", name));
    }
    return value != nullptr && value->text == "true";
  }

  /// Errors: it is not there, or no whole number up to `max`.
  Result<uint32_t> Count(std::string_view name, uint32_t max) const {
    const JsonValue* const value = value_.Find(name);
    uint32_t count = 0;
    const bool is_number = value != nullptr && value->kind == JsonValue::Kind::kNumber;
    const char* const begin = is_number ? value->text.data() : nullptr;
    const char* const end = is_number ? begin + value->text.size() : nullptr;
    const auto [parsed_to, error] =
        is_number ? std::from_chars(begin, end, count) : std::from_chars_result{};
    if (!is_number || error != std::errc() || parsed_to != end || count > max) {
      return Status::InvalidArgument(fmt::format("{} is a whole number, 0 to {}", name, max));
    }
    return count;
  }

  Result<double> Number(std::string_view name, double otherwise, double max) const {
    const JsonValue* const value = value_.Find(name);
    if (value == nullptr) {
      return otherwise;
    }
    const double number = std::strtod(value->text.c_str(), nullptr);
    if (value->kind != JsonValue::Kind::kNumber || !(number > 0) || number > max) {
      return Status::InvalidArgument(fmt::format("{} is a number above 0, at most {}", name, max));
    }
    return number;
  }

 private:
  explicit Order(JsonValue value) : value_(std::move(value)) {}

  JsonValue value_;
};

template <typename Reply>
Result<Reply> Ask(const PageSteering& steering, proto::Message request) {
  PS_ASSIGN(proto::Message reply, steering.ask(std::move(request)));
  if (const auto* const refusal = std::get_if<proto::Refusal>(&reply); refusal != nullptr) {
    return Status(refusal->code, refusal->message);
  }
  if (!std::holds_alternative<Reply>(reply)) {
    return Status::Unavailable("the coordinator gave another answer than expected");
  }
  return std::get<Reply>(std::move(reply));
}

Result<std::string> Scale(const Order& order, const PageSteering& steering) {
  PS_TRY(order.Allow({"type", "workers", "servers"}));
  proto::ScaleChange change;
  change.is_servers = order.Has("servers");
  if (change.is_servers == order.Has("workers")) {
    return Status::InvalidArgument("scale has workers or servers, a number");
  }
  PS_ASSIGN(change.type, order.Text("type"));
  if (change.is_servers && !change.type.empty()) {
    return Status::InvalidArgument("servers have no type");
  }
  PS_ASSIGN(
      const uint32_t count,
      change.is_servers ? order.Count("servers", proto::kShardsMax)
                        : order.Count("workers", proto::kSeatsMax));
  change.count = static_cast<int32_t>(count);
  PS_ASSIGN(
      const proto::ScaleReply reply,
      Ask<proto::ScaleReply>(steering, proto::ScaleRequest{{std::move(change)}}));
  uint32_t wanted = 0;
  for (const proto::FleetRow& row : reply.fleet) {
    wanted += row.wanted;
  }
  return fmt::format(
      "{} and {} are wanted now", Plural(wanted, "worker"), Plural(reply.servers.wanted, "server"));
}

Result<std::string> Drain(const Order& order, const PageSteering& steering) {
  PS_TRY(order.Allow({"worker", "grace_s"}));
  PS_ASSIGN(const uint32_t worker, order.Count("worker", proto::kSeatsMax));
  PS_ASSIGN(const double grace_s, order.Number("grace_s", kGraceDefault_s, kGraceMax_s));
  proto::NoticeRequest request;
  request.worker = WorkerId(worker);
  request.grace_ms = static_cast<uint32_t>(std::lround(grace_s * 1000));
  request.is_release = true;
  PS_ASSIGN(const proto::NoticeReply reply, Ask<proto::NoticeReply>(steering, std::move(request)));
  return fmt::format(
      "worker {} hands over and leaves within {} s; its group is smaller by one",
      worker,
      reply.grace_ms / 1000);
}

Result<std::string> Pause(const Order& order, const PageSteering& steering, bool is_paused) {
  PS_TRY(order.Allow({}));
  PS_ASSIGN(
      [[maybe_unused]] const proto::PauseReply reply,
      Ask<proto::PauseReply>(steering, proto::PauseRequest{is_paused}));
  return std::string(is_paused ? "training pauses after the steps in hand" : "training goes on");
}

Result<std::string> SwitchMode(const Order& order, const PageSteering& steering) {
  PS_TRY(order.Allow({"mode"}));
  PS_ASSIGN(const std::string word, order.Text("mode"));
  PS_ASSIGN(const proto::ModeChoice wanted, ParseMode(word));
  PS_ASSIGN(
      const proto::ModeReply reply, Ask<proto::ModeReply>(steering, proto::ModeRequest{wanted}));
  return "the mode is " + proto::ModeText(reply.modes.wanted) +
         (reply.modes.in_force == reply.modes.wanted ? "" : " when the steps in hand are done");
}

Result<std::string> Checkpoint(const Order& order, const PageSteering& steering) {
  PS_TRY(order.Allow({}));
  PS_ASSIGN(const uint64_t checkpoint, steering.checkpoint_now());
  return checkpoint == 0 ? std::string("a checkpoint is written with the next round")
                         : fmt::format("checkpoint {} is being written", checkpoint);
}

Result<std::string> Stop(const Order& order, const PageSteering& steering) {
  PS_TRY(order.Allow({"now"}));
  PS_ASSIGN(const bool is_immediate, order.Bool("now"));
  PS_ASSIGN(
      [[maybe_unused]] const proto::StopReply reply,
      Ask<proto::StopReply>(steering, proto::StopRequest{is_immediate}));
  return std::string(
      is_immediate ? "the run ends at once" : "the run ends after the steps in hand");
}

}  // namespace

Result<std::string> DoAsAsked(std::string_view body, const PageSteering& steering) {
  PS_ASSIGN(const Order order, Order::Read(body));
  PS_ASSIGN(const std::string what, order.Text("do"));
  if (what == "scale") {
    return Scale(order, steering);
  }
  if (what == "drain") {
    return Drain(order, steering);
  }
  if (what == "pause" || what == "continue") {
    return Pause(order, steering, what == "pause");
  }
  if (what == "mode") {
    return SwitchMode(order, steering);
  }
  if (what == "checkpoint") {
    return Checkpoint(order, steering);
  }
  if (what == "stop") {
    return Stop(order, steering);
  }
  return Status::InvalidArgument(fmt::format(
      "do is {}; allowed: scale, drain, pause, continue, mode, checkpoint, stop", Quoted(what)));
}

}  // namespace ps::run
