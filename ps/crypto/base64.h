#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ps::crypto {

/// RFC 4648, padded, on one line.
std::string Base64Of(std::span<const std::byte> data);

/// As it may stand in a URL: "-" and "_", not padded.
std::string Base64UrlOf(std::span<const std::byte> data);

}  // namespace ps::crypto
