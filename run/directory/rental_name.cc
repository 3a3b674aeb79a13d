#include "run/directory/rental_name.h"

#include <filesystem>
#include <span>

#include "provisioner/rental/rent_settings.h"
#include "ps/base/file.h"
#include "ps/crypto/sha256.h"

namespace ps::run {

Result<std::string> RentalRunName(const RunPaths& run) {
  constexpr size_t kNameMax = 40;
  constexpr size_t kDigits = 12;
  constexpr size_t kTokenBytesMax = 4096;
  const std::string name = std::filesystem::path(run.root).filename().string();
  PS_ASSIGN(const std::string secret, ReadSmallFile(run.token(), kTokenBytesMax));
  if (secret.empty()) {
    return Status::Corruption(
        run.token() + " is empty, and names the machines of the run; see psctl cloud list");
  }
  return provisioner::TagText(name.substr(0, kNameMax)) + "-" +
         crypto::HexOf(crypto::Sha256Of(std::as_bytes(std::span(secret)))).substr(0, kDigits);
}

}  // namespace ps::run
