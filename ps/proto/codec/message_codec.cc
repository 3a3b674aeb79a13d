// From message to frame and back, for every alternative of Message by the same two templates and
// the list of its fields.

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "messages_generated.h"
#include "ps/base/crc32c.h"
#include "ps/proto/codec/control_fields.h"
#include "ps/proto/codec/move_fields.h"
#include "ps/proto/codec/pack.h"
#include "ps/proto/codec/shard_fields.h"
#include "ps/proto/codec/status_fit.h"
#include "ps/proto/codec/unpack.h"
#include "ps/proto/codec/worker_fields.h"
#include "ps/proto/messages.h"

namespace ps::proto {
namespace {

using codec::Decoder;
using codec::Fbb;

// The wire's numbers are the C++ enums' numbers: first and last of each.
template <typename W, typename E>
constexpr bool IsLast(E last) {
  return static_cast<int>(W::MIN) == 0 && static_cast<int>(W::MAX) == static_cast<int>(last);
}

static_assert(IsLast<wire::Role>(Role::kControl));
static_assert(IsLast<wire::StatusCode>(kStatusCodeCount - 1));
static_assert(IsLast<wire::PushOutcome>(PushOutcome::kRejected));
static_assert(IsLast<wire::LeaseKind>(LeaseKind::kEvaluate));
static_assert(IsLast<wire::WorkerState>(WorkerState::kDraining));
static_assert(IsLast<wire::Mode>(Mode::kBsp));
static_assert(IsLast<wire::InitKind>(InitKind::kUniform));
static_assert(IsLast<wire::UpdateRule>(UpdateRule::kAverage));
static_assert(IsLast<wire::EncodingKind>(ps::codec::kEncodingKindCount - 1));

/// The table of each message, in the order of Message.
using Tables = std::tuple<
    wire::Hello,
    wire::HelloReply,
    wire::Refusal,
    wire::PushRequest,
    wire::PushReply,
    wire::PullRequest,
    wire::PullReply,
    wire::RegisterShard,
    wire::ShardSetup,
    wire::ShardReady,
    wire::Membership,
    wire::MembershipAck,
    wire::CommitRound,
    wire::CommitAck,
    wire::ShardHeartbeat,
    wire::JoinRequest,
    wire::JoinReply,
    wire::LeaseRequest,
    wire::LeaseGrant,
    wire::StepReport,
    wire::StepAck,
    wire::EvaluateReport,
    wire::EvaluateAck,
    wire::WorkerHeartbeat,
    wire::HeartbeatReply,
    wire::Goodbye,
    wire::GoodbyeReply,
    wire::Drain,
    wire::Shutdown,
    wire::StatusRequest,
    wire::StatusReply,
    wire::StopRequest,
    wire::StopReply,
    wire::ShardAddresses,
    wire::CheckpointRequest,
    wire::CheckpointReport,
    wire::NoticeRequest,
    wire::NoticeReply,
    wire::RestoreFailed,
    wire::ScaleRequest,
    wire::ScaleReply,
    wire::PauseRequest,
    wire::PauseReply,
    wire::ModeRequest,
    wire::ModeReply,
    wire::GiveChunks,
    wire::ChunksGiven,
    wire::ChunksOffer,
    wire::ChunkPart,
    wire::ChunksTaken,
    wire::ServerNotice,
    wire::CutLease,
    wire::LeaseCut,
    wire::SetRequest,
    wire::SetReply>;
static_assert(std::tuple_size_v<Tables> == kMessageTypeMax);

template <typename T>
concept HasPayload = requires(T message) {
  message.payload;
};

/// How the values of the payload are written.
template <typename T>
Encoding EncodingOf(const T& message) {
  if constexpr (requires { message.encoding; }) {
    return message.encoding;
  }
  return {};
}

/// Whether the payload has what the chunks say, encoded so.
template <typename Chunks>
Status CheckPayloadSize(const Chunks& chunks, Encoding encoding, uint64_t payload_bytes) {
  uint64_t rest = payload_bytes;
  for (const auto& chunk : chunks) {
    const uint64_t bytes = encoding.SizeOf(chunk.element_count);
    if (chunk.element_count == 0) {
      return Status::InvalidArgument("a chunk has no elements");
    }
    if (bytes > rest) {
      return Status::InvalidArgument("the chunks have more elements than the payload");
    }
    rest -= bytes;
  }
  return rest == 0 ? Status::Ok()
                   : Status::InvalidArgument(
                         fmt::format("the payload has {} bytes that no chunk names", rest));
}

/// Takes the payload where the type has one.
template <size_t i>
Result<Message> DecodeAs(std::span<const std::byte> flatbuffer, Payload* payload) {
  using W = std::tuple_element_t<i, Tables>;
  const W* const root = codec::VerifiedRoot<W>(flatbuffer);
  if (root == nullptr) {
    return Status::InvalidArgument("malformed FlatBuffer");
  }
  std::variant_alternative_t<i, MessageKinds> message;
  Decoder decoder(flatbuffer.size());
  codec::Unpack(decoder, *root, message);
  PS_TRY(decoder.status());
  if constexpr (HasPayload<decltype(message)>) {
    constexpr bool is_push = std::is_same_v<decltype(message), PushRequest>;
    if (!is_push && EncodingOf(message).kind == ps::codec::EncodingKind::kNothing) {
      return Status::InvalidArgument("values come as nothing, which pushes alone may");
    }
    PS_TRY(CheckPayloadSize(message.chunks, EncodingOf(message), payload->size()));
    message.payload = std::move(*payload);
  } else if (payload->size() != 0) {
    return Status::InvalidArgument("has a payload, which its type never has");
  }
  return Message(std::move(message));
}

/// Leaves the payload as it is.
template <size_t i>
void EncodeAs(Fbb& b, const Message& message) {
  using W = std::tuple_element_t<i, Tables>;
  const auto& value = *std::get_if<i>(&message);
  if constexpr (std::is_same_v<W, wire::StatusReply>) {
    if (MayBeTooLong(value.status)) {
      return b.Finish(codec::Pack<W>(b, StatusReply{Fitted(value.status)}));
    }
  }
  b.Finish(codec::Pack<W>(b, value));
}

struct TypeInfo {
  std::string_view name;
  void (*encode)(Fbb&, const Message&) = nullptr;
  Result<Message> (*decode)(std::span<const std::byte>, Payload*) = nullptr;
};

/// By number, from 0.
constexpr auto kTypes = []<size_t... I>(std::index_sequence<I...>) {
  return std::array<TypeInfo, sizeof...(I)>{
      {{std::tuple_element_t<I, Tables>::Traits::name, &EncodeAs<I>, &DecodeAs<I>}...}};
}
(std::make_index_sequence<kMessageTypeMax>());

/// Continues `crc` over the payload.
uint32_t PayloadCrc(const Payload& payload, uint32_t crc) {
  for (const auto& part : payload.parts) {
    crc = Crc32c(part, crc);
  }
  return crc;
}

}  // namespace

std::string_view MessageTypeName(uint16_t type) {
  return type == 0 || type > kMessageTypeMax ? "unknown" : kTypes[type - 1].name;
}

EncodedMessage EncodeMessage(const Message& message, uint64_t request_id) {
  EncodedMessage out = EncodeUnsealed(message, request_id);
  out.Seal();
  return out;
}

EncodedMessage EncodeUnsealed(const Message& message, uint64_t request_id) {
  Fbb builder(512);
  EncodedMessage out;
  kTypes[message.index()].encode(builder, message);
  std::visit(
      [&](const auto& value) {
        if constexpr (HasPayload<decltype(value)>) {
          out.payload = value.payload;
        }
      },
      message);
  const std::span<const std::byte> flatbuffer(
      reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize());
  out.header.type = MessageTypeOf(message);
  out.header.header_bytes = builder.GetSize();
  out.header.payload_bytes = out.payload.size();
  out.header.request_id = request_id;
  out.header.body_crc = Crc32c(flatbuffer);
  out.head.resize(kFrameHeaderBytes + flatbuffer.size() + out.header.padding_bytes());
  std::memcpy(out.head.data() + kFrameHeaderBytes, flatbuffer.data(), flatbuffer.size());
  return out;
}

void EncodedMessage::Seal() {
  if (is_sealed) {
    return;
  }
  header.body_crc = PayloadCrc(payload, header.body_crc);
  EncodeFrameHeader(header, std::span(head).first<kFrameHeaderBytes>());
  is_sealed = true;
}

Result<Message> DecodeMessage(
    const FrameHeader& header, std::span<const std::byte> flatbuffer, Payload payload) {
  const uint32_t body_crc = PayloadCrc(payload, Crc32c(flatbuffer));
  return DecodeMessage(header, flatbuffer, std::move(payload), body_crc);
}

Result<Message> DecodeMessage(
    const FrameHeader& header,
    std::span<const std::byte> flatbuffer,
    Payload payload,
    uint32_t body_crc) {
  const std::string_view name = MessageTypeName(header.type);
  if (header.type == 0 || header.type > kMessageTypeMax) {
    return Status::InvalidArgument(fmt::format("unknown message type {}", header.type));
  }
  if (flatbuffer.size() != header.header_bytes || payload.size() != header.payload_bytes) {
    return Status::InvalidArgument("the body is not as long as the frame header says")
        .Annotate(name);
  }
  if (body_crc != header.body_crc) {
    return Status::Corruption("frame body checksum does not match").Annotate(name);
  }
  std::vector<uint64_t> copy;
  return kTypes[header.type - 1].decode(codec::Aligned(flatbuffer, &copy), &payload).Annotate(name);
}

}  // namespace ps::proto
