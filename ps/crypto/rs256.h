#pragma once

#include <string>
#include <string_view>

#include "ps/base/status.h"

namespace ps::crypto {

/// The bytes of a signature by RSA with SHA-256 (PKCS #1, version 1.5). Errors: kInvalidArgument
/// (no RSA key in PEM without a password), which repeats nothing of the key.
Result<std::string> SignRs256(const std::string& private_key_pem, std::string_view text);

}  // namespace ps::crypto
