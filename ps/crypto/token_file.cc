#include "ps/crypto/token_file.h"

#include <fmt/core.h>

#include "ps/base/file.h"

namespace ps::crypto {

TokenFile ParseTokenFile(std::string_view text) {
  const size_t end = text.find('\n');
  std::string_view token = text.substr(0, end);
  while (token.ends_with('\r')) {
    token.remove_suffix(1);
  }
  return {
      std::string(token),
      std::string(end == std::string_view::npos ? std::string_view() : text.substr(end + 1))};
}

Result<TokenFile> ReadTokenFile(const std::string& path) {
  PS_ASSIGN(const std::string text, ReadSmallFile(path, kTokenFileBytesMax));
  TokenFile file = ParseTokenFile(text);
  if (file.token.empty()) {
    return Status::InvalidArgument(fmt::format("{} has no token; copy the run's file token", path));
  }
  return file;
}

Result<std::shared_ptr<const TlsContext>> TlsOf(const TokenFile& file, const std::string& what) {
  if (file.pem.empty()) {
    return std::shared_ptr<const TlsContext>();
  }
  auto context = TlsContext::Make(file.pem);
  if (!context.ok()) {
    return Status(context.status().code(), what + " " + std::string(context.status().message()));
  }
  return context;
}

}  // namespace ps::crypto
