#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ps::crypto {

/// The digest of some bytes by SHA-256 (FIPS 180-4).
struct Sha256 {
  std::array<std::byte, 32> bytes{};

  friend auto operator<=>(const Sha256&, const Sha256&) = default;
};

Sha256 Sha256Of(std::span<const std::byte> data);

/// 64 lower-case hex digits.
std::string HexOf(const Sha256& digest);

}  // namespace ps::crypto
