#include "checkpoint/remote/place.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoint/remote/directory_store.h"
#include "ps/base/time.h"

namespace ps::checkpoint {
namespace {

constexpr std::string_view kFileScheme = "file://";

}  // namespace

Result<std::unique_ptr<store::ObjectStore>> OpenObjectStore(
    const std::string& place,
    const Environment& environment,
    store::Pause pause,
    IsCancelled is_cancelled) {
  if (place.starts_with(kFileScheme) && place.size() > kFileScheme.size()) {
    return MakeDirectoryStore(place.substr(kFileScheme.size()));
  }
  const size_t scheme = place.find("://");
  if (place.empty() || place == kFileScheme) {
    return Status::InvalidArgument("a place for copies is a folder, or s3://BUCKET/PREFIX");
  }
  if (!store::IsS3(place) && scheme != std::string::npos) {
    return Status::InvalidArgument(fmt::format(
        "{}: {} is not known; a place for copies is a folder, or s3://BUCKET/PREFIX with "
        "?endpoint=URL for what speaks the protocol of S3",
        place,
        place.substr(0, scheme + 3)));
  }
  if (!store::IsS3(place)) {
    return MakeDirectoryStore(place);
  }
  PS_ASSIGN(store::S3Access access, store::FindS3Access(place, environment));
  store::S3Options options;
  options.pause = std::move(pause);
  options.seed = static_cast<uint64_t>(SystemTime().Now().time_since_epoch().count());
  options.find_again = std::move(access.find_again);
  return store::MakeS3Store(
      std::move(access.location),
      std::move(access.credentials),
      MakeHttpClient(HttpLimits(), std::move(is_cancelled)),
      std::move(options));
}

bool IsObjectStore(const std::string& place) {
  std::error_code error;
  return place.find("://") != std::string::npos ||
         (std::filesystem::is_directory(place + "/checkpoints", error) &&
          std::filesystem::is_directory(place + "/data", error));
}

std::string MakeWriterName() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format(
      "{}, process {}, {}", host.data(), ::getpid(), SystemTime().Now().time_since_epoch().count());
}

}  // namespace ps::checkpoint
