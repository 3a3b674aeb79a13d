#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ranges>
#include <string>
#include <type_traits>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "tests/proto/members.h"

namespace ps::tests {

template <typename T>
struct IsVector : std::false_type {};

template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

/// Gives every member of a value a value of its own that is not the default, as deep as it goes.
class Filler {
 public:
  template <typename T>
  void Fill(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = true;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(1);
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = static_cast<T>(Next());
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = "text " + std::to_string(Next());
    } else if constexpr (IsVector<T>::value) {
      value.resize(2);
      for (auto& item : value) {
        Fill(item);
      }
    } else if constexpr (std::is_same_v<T, proto::Payload>) {
      // Its size follows from the other members: AttachPayload.
    } else if constexpr (std::is_same_v<T, proto::Encoding>) {
      value = {ps::codec::EncodingKind::kTopk, 250'000};  // not every share fits every kind
    } else if constexpr (std::is_same_v<T, Duration>) {
      value = Duration(Next());
    } else if constexpr (requires { value.emplace(); }) {
      Fill(value.emplace());
    } else if constexpr (requires { value.value; }) {
      Fill(value.value);
    } else {
      std::apply([&](auto&... member) { (Fill(member), ...); }, Members(value));
    }
  }

 private:
  uint64_t Next() { return ++last_; }

  uint64_t last_ = 0;
};

/// Gives a message that carries a payload as many values as its chunks say.
template <typename T>
void AttachPayload(T& message) {
  if constexpr (requires { message.payload; }) {
    size_t floats = 0;
    for (const auto& chunk : message.chunks) {
      floats += chunk.element_count;
    }
    auto buffer = std::make_shared<Buffer>(floats * sizeof(float));
    for (size_t i = 0; i < floats; ++i) {
      buffer->floats()[i] = static_cast<float>(i) + 0.5F;
    }
    size_t bytes = floats * sizeof(float);
    if constexpr (requires { message.encoding; }) {
      bytes = 0;
      for (const auto& chunk : message.chunks) {
        bytes += message.encoding.SizeOf(chunk.element_count);
      }
    }
    message.payload = proto::Payload::Own(std::move(buffer), bytes);
  }
}

template <typename T>
bool Same(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a == b || (a != a && b != b);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return a == b;
  } else if constexpr (std::is_same_v<T, Status>) {
    return a.code() == b.code() && a.message() == b.message();
  } else if constexpr (std::ranges::range<T>) {
    return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return Same(x, y); });
  } else if constexpr (requires { a.first; }) {
    return Same(a.first, b.first) && Same(a.second, b.second);
  } else if constexpr (std::is_same_v<T, proto::Payload>) {
    return std::ranges::equal(a.bytes(), b.bytes());
  } else if constexpr (std::equality_comparable<T>) {
    return a == b;
  } else if constexpr (requires { a.has_value(); }) {
    return a.has_value() == b.has_value() && (!a || Same(*a, *b));
  } else {
    const auto left = Members(a);
    const auto right = Members(b);
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return (Same(std::get<I>(left), std::get<I>(right)) && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(left)>>());
  }
}

/// Message number `index` of the protocol, every member filled.
template <size_t index = 0>
proto::Message SampleMessage(size_t wanted) {
  if constexpr (index < std::variant_size_v<proto::MessageKinds>) {
    if (wanted != index) {
      return SampleMessage<index + 1>(wanted);
    }
    std::variant_alternative_t<index, proto::MessageKinds> message;
    Filler().Fill(message);
    AttachPayload(message);
    return message;
  } else {
    return proto::Message();
  }
}

inline bool SameMessage(const proto::Message& a, const proto::Message& b) {
  return a.index() == b.index() &&
         std::visit(
             [&](const auto& value) {
               return Same(value, std::get<std::decay_t<decltype(value)>>(b));
             },
             a);
}

/// A frame as one run of bytes, as a peer would receive it.
inline std::vector<std::byte> Flatten(const proto::EncodedMessage& encoded) {
  std::vector<std::byte> bytes = encoded.head;
  for (const auto& part : encoded.payload.parts) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

/// Reads one frame as a receiver does: header, FlatBuffers part, padding skipped, payload.
inline Result<proto::Message> ParseFrame(
    std::span<const std::byte> frame, const proto::FrameLimits& limits = {}) {
  if (frame.size() < proto::kFrameHeaderBytes) {
    return Status::InvalidArgument("short");
  }
  PS_ASSIGN(
      const auto header, proto::DecodeFrameHeader(frame.first<proto::kFrameHeaderBytes>(), limits));
  const size_t payload_at = proto::kFrameHeaderBytes + header.header_bytes + header.padding_bytes();
  if (frame.size() != payload_at + header.payload_bytes) {
    return Status::InvalidArgument("length");
  }
  proto::Payload payload;
  if (header.payload_bytes > 0) {
    auto buffer = std::make_shared<Buffer>(header.payload_bytes);
    std::ranges::copy(frame.subspan(payload_at), buffer->data());
    payload = proto::Payload::Own(std::move(buffer), header.payload_bytes);
  }
  return proto::DecodeMessage(
      header, frame.subspan(proto::kFrameHeaderBytes, header.header_bytes), std::move(payload));
}

}  // namespace ps::tests
