#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/part.h"
#include "ps/base/ids.h"

namespace ps::checkpoint {

// Keys sort as the numbers in them, so they are big-endian. A chunk's records lie side by side, the
// newest first: the newest at or before checkpoint k is the first at or after MakeRecordKey(c, k).

inline void AppendBigEndian(uint64_t number, std::string* key) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    key->push_back(static_cast<char>((number >> shift) & 0xFF));
  }
}

/// The number at `at`; 0 when the key is too short.
inline uint64_t ParseBigEndian(std::string_view key, size_t at) {
  uint64_t number = 0;
  for (size_t i = at; i < at + 8 && at + 8 <= key.size(); ++i) {
    number = (number << 8) | static_cast<uint8_t>(key[i]);
  }
  return number;
}

/// The key of a manifest or a part.
inline std::string MakeIdKey(CheckpointId id) {
  std::string key;
  AppendBigEndian(id, &key);
  return key;
}

inline CheckpointId ParseIdKey(std::string_view key) {
  return ParseBigEndian(key, 0);
}

struct RecordKey {
  ChunkKey key;
  CheckpointId id = 0;
};

/// The key of a chunk record.
inline std::string MakeRecordKey(ChunkKey key, CheckpointId id) {
  std::string text;
  AppendBigEndian(key.value, &text);
  AppendBigEndian(~id, &text);
  return text;
}

inline RecordKey ParseRecordKey(std::string_view key) {
  return {.key = ChunkKey(ParseBigEndian(key, 0)), .id = ~ParseBigEndian(key, 8)};
}

}  // namespace ps::checkpoint
