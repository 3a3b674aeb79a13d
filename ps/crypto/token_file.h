#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/crypto/tls.h"

namespace ps::crypto {

/// What lets a process take part in a run, as one file: its token on the first line, and behind it,
/// when the run is encrypted, its certificate, its key and the run's authority in PEM.
struct TokenFile {
  std::string token;
  std::string pem;  // for TlsContext::Make; empty: the run is not encrypted

  std::string Text() const { return token + "\n" + pem; }
};

/// How large such a file may be.
inline constexpr size_t kTokenFileBytesMax = size_t{16} << 10;

TokenFile ParseTokenFile(std::string_view text);

/// Errors: kIo, kNotFound, kInvalidArgument (too large, no token).
Result<TokenFile> ReadTokenFile(const std::string& path);

/// Null for a file of a run that is not encrypted. Errors: kInvalidArgument that begins with what.
Result<std::shared_ptr<const TlsContext>> TlsOf(const TokenFile& file, const std::string& what);

}  // namespace ps::crypto
