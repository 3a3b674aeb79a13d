#include "run/directory/rental_name.h"

#include <filesystem>
#include <span>

#include "provisioner/rental/rent_settings.h"
#include "ps/base/file.h"
#include "ps/crypto/sha256.h"

namespace ps::run {

std::string RentalRunName(const RunPaths& run) {
  constexpr size_t kNameMax = 40;
  constexpr size_t kDigits = 12;
  constexpr size_t kTokenBytesMax = 4096;
  const std::string name = std::filesystem::path(run.root).filename().string();
  const Result<std::string> token = ReadSmallFile(run.token(), kTokenBytesMax);
  const std::string secret = token.ok() ? *token : "";
  return provisioner::TagText(name.substr(0, kNameMax)) + "-" +
         crypto::HexOf(crypto::Sha256Of(std::as_bytes(std::span(secret)))).substr(0, kDigits);
}

}  // namespace ps::run
