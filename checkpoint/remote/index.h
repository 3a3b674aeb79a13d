#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/part.h"
#include "ps/base/status.h"
#include "ps/crypto/sha256.h"

namespace ps::checkpoint {

/// Some bytes of a file, as an object that is named by their digest: the same bytes are stored once
/// whatever they are part of, and nothing is ever overwritten by something else.
struct Piece {
  crypto::Sha256 digest;
  uint32_t bytes = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

/// A file of a database. Its pieces follow each other.
struct CopiedFile {
  std::string name;
  std::vector<Piece> pieces;

  uint64_t bytes() const;

  friend bool operator==(const CopiedFile&, const CopiedFile&) = default;
};

struct CopiedDatabase {
  std::string directory;  // in the checkpoint path: "shard-3"
  std::vector<CopiedFile> files;

  friend bool operator==(const CopiedDatabase&, const CopiedDatabase&) = default;
};

/// A checkpoint exists in another place if and only if its index does.
struct CopyIndex {
  CheckpointId id = 0;
  std::vector<std::byte> manifest;        // as in the job's store
  std::vector<CopiedDatabase> databases;  // they may hold parts of other checkpoints too

  friend bool operator==(const CopyIndex&, const CopyIndex&) = default;
};

// Names of objects. FORMAT.md, section 6.

inline constexpr std::string_view kIndexPrefix = "checkpoints/";
inline constexpr std::string_view kPiecePrefix = "data/";
inline constexpr std::string_view kWriterKey = "writer";  // writer_mark.h
inline constexpr std::string_view kProbeKey = "probe";    // there while a place is tried

std::string IndexKey(CheckpointId id);
std::string PieceKey(const crypto::Sha256& digest);

/// The checkpoint of a key that begins with kIndexPrefix; 0 when it is none of ours.
CheckpointId ParseIndexKey(std::string_view key);

/// The keys of all pieces.
std::set<std::string> PieceKeys(const CopyIndex& index);

/// FORMAT.md says it to the byte. Requires: names as DecodeIndex wants them.
std::vector<std::byte> EncodeIndex(const CopyIndex& index);

/// The opposite, for any bytes: takes memory in proportion to them. No name in the result leads
/// out of its directory. Errors: kCorruption (damaged, or of another checkpoint than `id`),
/// kUnsupported (newer format).
Result<CopyIndex> DecodeIndex(CheckpointId id, std::span<const std::byte> bytes);

}  // namespace ps::checkpoint
