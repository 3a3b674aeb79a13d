#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace ps::crypto {

/// The MD5 of some bytes (RFC 1321) in base64, as the header Content-MD5 has it: it tells damage on
/// the way, and nothing about who wrote the bytes. Nothing where libcrypto offers no MD5, as with
/// FIPS.
std::optional<std::string> Md5Base64(std::span<const std::byte> data);

}  // namespace ps::crypto
