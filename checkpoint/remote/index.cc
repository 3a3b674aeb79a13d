#include "checkpoint/remote/index.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "checkpoint/bytes.h"
#include "checkpoint/envelope.h"
#include "ps/store/object_store.h"

namespace ps::checkpoint {
namespace {

constexpr size_t kPieceEntryBytes = 36;

/// One name, of a file or a directory, that can't lead anywhere else.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) {
           return c == '/' || c <= ' ' || c >= 127;
         });
}

bool ReadPieces(ByteReader* reader, std::vector<Piece>* pieces) {
  const size_t count = reader->GetCount(kPieceEntryBytes);
  for (size_t i = 0; i < count; ++i) {
    Piece piece;
    const std::span<const std::byte> digest = reader->GetBytes(piece.digest.bytes.size());
    if (digest.empty()) {
      return false;
    }
    std::memcpy(piece.digest.bytes.data(), digest.data(), digest.size());
    piece.bytes = reader->Get<uint32_t>();
    if (piece.bytes == 0 || piece.bytes > store::kObjectBytesMax) {
      return false;
    }
    pieces->push_back(piece);
  }
  return reader->is_ok();
}

}  // namespace

uint64_t CopiedFile::bytes() const {
  uint64_t sum = 0;
  for (const Piece& piece : pieces) {
    sum += piece.bytes;
  }
  return sum;
}

std::string IndexKey(CheckpointId id) {
  return fmt::format("{}{:020}", kIndexPrefix, id);
}

std::string PieceKey(const crypto::Sha256& digest) {
  return std::string(kPiecePrefix) + crypto::HexOf(digest);
}

CheckpointId ParseIndexKey(std::string_view key) {
  CheckpointId id = 0;
  const std::string_view digits = key.substr(std::min(kIndexPrefix.size(), key.size()));
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  return parsed.ec == std::errc() && IndexKey(id) == key ? id : 0;
}

std::set<std::string> PieceKeys(const CopyIndex& index) {
  std::set<std::string> keys;
  for (const CopiedDatabase& database : index.databases) {
    for (const CopiedFile& file : database.files) {
      for (const Piece& piece : file.pieces) {
        keys.insert(PieceKey(piece.digest));
      }
    }
  }
  return keys;
}

std::vector<std::byte> EncodeIndex(const CopyIndex& index) {
  ByteWriter record;
  PutEnvelope(&record, RecordKind::kIndex, index.id);
  record.Put(static_cast<uint32_t>(index.manifest.size()));
  record.PutBytes(index.manifest);
  record.Put(static_cast<uint32_t>(index.databases.size()));
  for (const CopiedDatabase& database : index.databases) {
    record.PutText(database.directory);
    record.Put(static_cast<uint32_t>(database.files.size()));
    for (const CopiedFile& file : database.files) {
      record.PutText(file.name);
      record.Put(static_cast<uint32_t>(file.pieces.size()));
      for (const Piece& piece : file.pieces) {
        record.PutBytes(piece.digest.bytes);
        record.Put(piece.bytes);
      }
    }
  }
  SealEnvelope(&record);
  return std::move(record).Take();
}

Result<CopyIndex> DecodeIndex(CheckpointId id, std::span<const std::byte> bytes) {
  PS_ASSIGN(const std::span<const std::byte> body, OpenEnvelope(bytes, RecordKind::kIndex, id));
  const auto damaged = [] { return Status::Corruption("the index is damaged"); };
  ByteReader reader(body);
  CopyIndex index;
  index.id = id;
  const std::span<const std::byte> manifest = reader.GetBytes(reader.Get<uint32_t>());
  index.manifest.assign(manifest.begin(), manifest.end());
  const size_t databases = reader.GetCount(8);
  for (size_t i = 0; i < databases; ++i) {
    CopiedDatabase database;
    database.directory = reader.GetText();
    const size_t files = reader.GetCount(8);
    if (!IsPlainName(database.directory)) {
      return damaged();
    }
    for (size_t j = 0; j < files; ++j) {
      CopiedFile file;
      file.name = reader.GetText();
      if (!IsPlainName(file.name) || !ReadPieces(&reader, &file.pieces)) {
        return damaged();
      }
      database.files.push_back(std::move(file));
    }
    index.databases.push_back(std::move(database));
  }
  if (!reader.is_at_end()) {
    return damaged();
  }
  return index;
}

}  // namespace ps::checkpoint
