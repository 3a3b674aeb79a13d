#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace ps::worker {

/// More bytes than these are compared by parts of them, and their values are looked at when they
/// are read and not before: nobody waits until gigabytes have come from a disk.
inline constexpr uint64_t kReadInFullMax = uint64_t{64} << 20;

/// The CRC-32C by which machines compare what they read: of all bytes up to kReadInFullMax. Of
/// more, of their number and of 2,048 blocks of 4 KiB from the first to the last, as far from each
/// other as they can be. What differs elsewhere is not found. `read` writes the bytes from a place
/// on.
uint32_t DataSum(
    uint64_t bytes, const std::function<void(uint64_t begin, std::span<std::byte> out)>& read);

/// The same of bytes that lie in memory.
uint32_t DataSum(std::span<const std::byte> data);

}  // namespace ps::worker
