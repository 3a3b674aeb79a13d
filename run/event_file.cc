#include "run/event_file.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>
#include <span>

#include "ps/base/crc32c.h"

namespace ps::run {
namespace {

static_assert(std::endian::native == std::endian::little);

// Protobuf wire types.
constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kBytes = 2;
constexpr uint32_t kFixed32 = 5;

// Event.
constexpr uint32_t kWallTime = 1;
constexpr uint32_t kStep = 2;
constexpr uint32_t kFileVersion = 3;
constexpr uint32_t kSummary = 5;
// Summary, and Summary.Value.
constexpr uint32_t kValue = 1;
constexpr uint32_t kTag = 1;
constexpr uint32_t kSimpleValue = 2;

template <typename T>
void AddRaw(const T& value, std::string* out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

void AddVarint(uint64_t value, std::string* out) {
  while (value >= 0x80U) {
    out->push_back(static_cast<char>(value | 0x80U));
    value >>= 7U;
  }
  out->push_back(static_cast<char>(value));
}

void AddTag(uint32_t field, uint32_t wire_type, std::string* out) {
  AddVarint(field << 3U | wire_type, out);
}

void AddBytes(uint32_t field, std::string_view bytes, std::string* out) {
  AddTag(field, kBytes, out);
  AddVarint(bytes.size(), out);
  out->append(bytes);
}

uint32_t MaskedCrc(std::string_view bytes) {
  const uint32_t crc = Crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xa282ead8U;
}

std::string Frame(std::string_view event) {
  std::string out;
  AddRaw(static_cast<uint64_t>(event.size()), &out);
  AddRaw(MaskedCrc(out), &out);
  out.append(event);
  AddRaw(MaskedCrc(event), &out);
  return out;
}

std::string BeginEvent(double unix_s) {
  std::string event;
  AddTag(kWallTime, kFixed64, &event);
  AddRaw(unix_s, &event);
  return event;
}

}  // namespace

std::string EncodeEventVersion(double unix_s) {
  std::string event = BeginEvent(unix_s);
  AddBytes(kFileVersion, "brain.Event:2", &event);
  return Frame(event);
}

std::string EncodeEvent(double unix_s, uint64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    AddBytes(kTag, scalar.tag, &value);
    AddTag(kSimpleValue, kFixed32, &value);
    AddRaw(scalar.value, &value);
    AddBytes(kValue, value, &summary);
  }
  std::string event = BeginEvent(unix_s);
  AddTag(kStep, kVarint, &event);
  AddVarint(step, &event);
  AddBytes(kSummary, summary, &event);
  return Frame(event);
}

std::string EventFileName(int64_t unix_micros) {
  return fmt::format("events.out.tfevents.{}.spotps", unix_micros / 1'000'000);
}

}  // namespace ps::run
