#include "checkpoint/envelope.h"

#include <fmt/core.h>

#include "ps/base/crc32c.h"

namespace ps::checkpoint {
namespace {

constexpr uint32_t kMagic = 0x4B435350;  // "PSCK"
constexpr size_t kChecksumAt = 16;  // what is before it is covered, and all from kEnvelopeBytes

uint32_t ChecksumOf(std::span<const std::byte> record) {
  return Crc32c(record.subspan(kEnvelopeBytes), Crc32c(record.first(kChecksumAt)));
}

}  // namespace

void PutEnvelope(ByteWriter* record, RecordKind kind, uint64_t id, uint16_t version) {
  record->Put(kMagic);
  record->Put(static_cast<uint16_t>(kind));
  record->Put(version);
  record->Put(id);
  record->Put(uint64_t{0});
}

void SealEnvelope(ByteWriter* record) {
  record->Overwrite(kChecksumAt, ChecksumOf(record->bytes()));
}

Result<std::span<const std::byte>> OpenEnvelope(
    std::span<const std::byte> bytes, RecordKind kind, uint64_t id) {
  ByteReader reader(bytes);
  if (bytes.size() < kEnvelopeBytes || reader.Get<uint32_t>() != kMagic) {
    return Status::Corruption("it is no record of a checkpoint");
  }
  const auto found_kind = reader.Get<uint16_t>();
  const auto version = reader.Get<uint16_t>();
  if (version > NewestFormat(kind)) {
    return Status::Unsupported(fmt::format(
        "its format is {}, this program knows formats up to {}; use a newer one",
        version,
        NewestFormat(kind)));
  }
  const auto found_id = reader.Get<uint64_t>();
  if (reader.Get<uint32_t>() != ChecksumOf(bytes)) {
    return Status::Corruption("its checksum is wrong");
  }
  if (version == 0 || found_kind != static_cast<uint16_t>(kind) || found_id != id ||
      reader.Get<uint32_t>() != 0) {
    return Status::Corruption("it is another record than its key says");
  }
  return bytes.subspan(kEnvelopeBytes);
}

}  // namespace ps::checkpoint
