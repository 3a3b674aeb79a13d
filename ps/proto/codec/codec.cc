#include "ps/proto/codec/codec.h"

#include <fmt/core.h>

#include <algorithm>

#include "ps/base/utf8.h"

namespace ps::proto::codec {

Status Decoder::status() const {
  if (ok()) {
    return Status::Ok();
  }
  return Status::InvalidArgument(field_.empty() ? why_ : field_ + why_);
}

void Decoder::Fail(std::string_view field, std::string_view why) {
  if (ok()) {
    is_failed_ = true;
    field_ = field;
    why_ = field.empty() ? std::string(why) : fmt::format(" {}", why);
  }
}

void Decoder::MoveInto(std::string_view field) {
  if (field_.empty()) {
    why_.insert(0, ": ");
    field_ = field;
  } else {
    field_ = fmt::format("{}.{}", field, field_);
  }
}

std::string Decoder::Text(const flatbuffers::String* text, const FieldRules& rules) {
  if (text == nullptr || !Charge(text->size(), rules.name)) {
    return {};
  }
  if (text->size() > rules.limits.bytes_max) {
    Fail(
        rules.name,
        fmt::format("has {} bytes, over the limit of {}", text->size(), rules.limits.bytes_max));
    return {};
  }
  return text->str();
}

bool Decoder::Charge(size_t bytes, const char* field) {
  if (bytes > budget_) {
    Fail(field, "overlaps other parts of the message");
    return false;
  }
  budget_ -= bytes;
  return true;
}

bool Decoder::ChargeItems(
    const uint8_t* items, size_t count, size_t bytes_each, size_t alignment, const char* field) {
  if (!Charge(count * bytes_each, field)) {
    return false;
  }
  if (count > 0 && reinterpret_cast<uintptr_t>(items) % alignment != 0) {
    Fail(field, "is misaligned");
    return false;
  }
  return true;
}

std::span<const std::byte> Aligned(std::span<const std::byte> bytes, std::vector<uint64_t>* copy) {
  if (!bytes.empty() && reinterpret_cast<uintptr_t>(bytes.data()) % alignof(uint64_t) == 0) {
    return bytes;
  }
  copy->resize(bytes.size() / sizeof(uint64_t) + 1);
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(*copy)).begin());
  return std::as_bytes(std::span(*copy)).first(bytes.size());
}

Offset<flatbuffers::String> MakeText(Fbb& b, const std::string& text, size_t bytes_max) {
  constexpr std::string_view kCut = "...";
  if (text.size() <= bytes_max) {
    return b.CreateString(text);
  }
  size_t end = bytes_max - kCut.size();
  while (end > 0 && IsUtf8Continuation(text[end])) {
    --end;
  }
  return b.CreateString(text.substr(0, end).append(kCut));
}

}  // namespace ps::proto::codec
