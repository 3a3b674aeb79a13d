// From message to frame and back, for every alternative of Message by the same two templates.

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <utility>

#include "ps/base/crc32c.h"
#include "ps/proto/codec.h"
#include "ps/proto/messages.h"

namespace ps::proto {
namespace {

using codec::Decoder;
using codec::Fbb;

// In the order of Message.
constexpr std::array<std::string_view, kMessageTypeMax> kTypeNames = {
    "Hello",          "HelloReply",     "Refusal",           "PushRequest",
    "PushReply",      "PullRequest",    "PullReply",         "RegisterShard",
    "ShardSetup",     "ShardReady",     "Membership",        "MembershipAck",
    "CommitRound",    "CommitAck",      "ShardHeartbeat",    "JoinRequest",
    "JoinReply",      "LeaseRequest",   "LeaseGrant",        "StepReport",
    "StepAck",        "EvaluateReport", "EvaluateAck",       "WorkerHeartbeat",
    "HeartbeatReply", "Goodbye",        "GoodbyeReply",      "Drain",
    "Shutdown",       "StatusRequest",  "StatusReply",       "StopRequest",
    "StopReply",      "ShardAddresses", "CheckpointRequest", "CheckpointReport",
    "NoticeRequest",  "NoticeReply",    "RestoreFailed",     "ScaleRequest",
    "ScaleReply",     "PauseRequest",   "PauseReply",        "ModeRequest",
    "ModeReply",      "GiveChunks",     "ChunksGiven",       "ChunksOffer",
    "ChunkPart",      "ChunksTaken",    "ServerNotice"};
static_assert(!kTypeNames.back().empty());

constexpr uint32_t kDepthMax = 16;

template <typename Offset>
struct TableOf;

template <typename W>
struct TableOf<flatbuffers::Offset<W>> {
  using type = W;
};

/// The table of message T: what its Encode makes.
template <typename T>
using Wire =
    typename TableOf<decltype(codec::Encode(std::declval<Fbb&>(), std::declval<const T&>()))>::type;

template <typename T>
concept HasPayload = requires(T message) {
  message.payload;
};

/// Of a value of the payload.
template <typename T>
uint64_t ValueBytes(const T& message) {
  if constexpr (requires { message.dtype; }) {
    return BytesOf(message.dtype);
  }
  return sizeof(float);
}

/// Whether the payload has what the chunks say, of values of so many bytes.
template <typename Chunks>
Status CheckPayloadSize(const Chunks& chunks, uint64_t value_bytes, uint64_t payload_bytes) {
  uint64_t rest = payload_bytes;
  for (const auto& chunk : chunks) {
    const uint64_t bytes = uint64_t{chunk.element_count} * value_bytes;
    if (bytes == 0) {
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
template <typename T>
Result<Message> DecodeAs(std::span<const std::byte> flatbuffer, Payload* payload) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(flatbuffer.data());
  // A table takes 8 bytes at least with the offset that leads to it.
  const auto tables_max = static_cast<flatbuffers::uoffset_t>(flatbuffer.size() / 8 + 1);
  flatbuffers::Verifier verifier(bytes, flatbuffer.size(), kDepthMax, tables_max);
  if (!verifier.VerifyBuffer<Wire<T>>(nullptr)) {
    return Status::InvalidArgument("malformed FlatBuffer");
  }
  T message;
  Decoder decoder(flatbuffer.size());
  codec::Decode(decoder, *flatbuffers::GetRoot<Wire<T>>(bytes), &message);
  PS_TRY(decoder.status());
  if constexpr (HasPayload<T>) {
    PS_TRY(CheckPayloadSize(message.chunks, ValueBytes(message), payload->size()));
    message.payload = std::move(*payload);
  } else if (payload->size() != 0) {
    return Status::InvalidArgument("has a payload, which its type never has");
  }
  return Message(std::move(message));
}

using DecodeFunction = Result<Message> (*)(std::span<const std::byte>, Payload*);

template <size_t... I>
constexpr std::array<DecodeFunction, sizeof...(I)> MakeDecoders(std::index_sequence<I...>) {
  return {&DecodeAs<std::variant_alternative_t<I, Message>>...};
}

constexpr auto kDecoders = MakeDecoders(std::make_index_sequence<kMessageTypeMax>());

/// Continues `crc` over the payload.
uint32_t PayloadCrc(const Payload& payload, uint32_t crc) {
  for (const auto& part : payload.parts) {
    crc = Crc32c(part, crc);
  }
  return crc;
}

}  // namespace

std::string_view MessageTypeName(uint16_t type) {
  return type == 0 || type > kMessageTypeMax ? "unknown" : kTypeNames[type - 1];
}

EncodedMessage EncodeMessage(const Message& message, uint64_t request_id) {
  EncodedMessage out = EncodeUnsealed(message, request_id);
  out.Seal();
  return out;
}

EncodedMessage EncodeUnsealed(const Message& message, uint64_t request_id) {
  Fbb builder(512);
  EncodedMessage out;
  std::visit(
      [&](const auto& value) {
        builder.Finish(codec::Encode(builder, value));
        if constexpr (HasPayload<std::decay_t<decltype(value)>>) {
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
  // FlatBuffers reads 64-bit numbers in place.
  constexpr size_t kAlignment = alignof(uint64_t);
  if (reinterpret_cast<uintptr_t>(flatbuffer.data()) % kAlignment != 0) {
    std::vector<uint64_t> aligned((flatbuffer.size() + kAlignment - 1) / kAlignment);
    std::memcpy(aligned.data(), flatbuffer.data(), flatbuffer.size());
    return kDecoders[header.type - 1](
               std::as_bytes(std::span(aligned)).first(flatbuffer.size()), &payload)
        .Annotate(name);
  }
  return kDecoders[header.type - 1](flatbuffer, &payload).Annotate(name);
}

}  // namespace ps::proto
