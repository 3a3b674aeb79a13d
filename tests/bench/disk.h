#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tests/base/temporary_folder.h"

namespace ps::bench {

class Folder : public TemporaryFolder {
 public:
  /// Bytes of all files.
  uint64_t bytes() const;

  /// What was read or written of it is read from the disk again.
  void Forget() const;
};

/// The yardstick: these bytes, one after another, in one file that is synced at its end.
void WriteRaw(const Folder& folder, std::span<const std::span<const std::byte>> pieces);

/// Reads that file into these places.
void ReadRaw(const Folder& folder, std::span<const std::span<std::byte>> places);

/// Reads that file in pieces of 1 MiB to one place, which stays in the cache of the CPU.
void ReadThrough(const Folder& folder);

}  // namespace ps::bench
