#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ps {

/// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected, as in RFC 3720 appendix B.4).
/// Crc32c("123456789") = 0xE3069283. Pass the CRC of what went before to extend it.
/// Folds by carry-less multiplication where the CPU has it for 512-bit registers, else uses the
/// SSE 4.2 instruction on three interleaved streams where it has that.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t previous = 0);

/// Never folds, as on CPUs without 512-bit carry-less multiplication. For the tests of that path.
uint32_t Crc32cInterleaved(std::span<const std::byte> bytes, uint32_t previous = 0);

/// The table-driven reference; same values, slower.
uint32_t Crc32cPortable(std::span<const std::byte> bytes, uint32_t previous = 0);

}  // namespace ps
