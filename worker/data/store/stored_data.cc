#include "worker/data/store/stored_data.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/unique_fd.h"
#include "ps/crypto/sha256.h"
#include "worker/data/set_cache.h"
#include "worker/data/store/stored_names.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kObjectsMax = size_t{1} << 22;
constexpr uint64_t kStoredBytesMax = uint64_t{1} << 50;

/// For the names of drafts: so it is taken for one, and goes when nobody works in it.
constexpr const char* kPartsName = "/draft-objects";

std::string FormatName(proto::DatasetFormat format) {
  return std::string(config::kDatasetFormatNames[static_cast<size_t>(format)]);
}

/// Which objects these are, in a line: another list has another one.
std::string StateOf(const std::vector<store::StoredObject>& objects) {
  std::string list;
  uint64_t bytes = 0;
  for (const store::StoredObject& object : objects) {
    list +=
        fmt::format("{}\n{}\n{}\n{}\n", object.name, object.bytes, object.etag, object.modified);
    bytes += object.bytes;
  }
  return fmt::format(
      "{} objects, {} bytes, {}",
      objects.size(),
      bytes,
      crypto::HexOf(crypto::Sha256Of(std::as_bytes(std::span(list)))));
}

/// Lists the objects that could be data. Waits and repetitions are those of a fetch.
Result<std::vector<store::StoredObject>> ListData(
    const store::S3Access& access,
    proto::DatasetFormat format,
    LoadProgress* progress,
    const FetchOptions& options) {
  store::S3Options asking;
  asking.attempts_max = options.attempts_max;
  asking.first_wait = options.first_wait;
  asking.longest_wait = options.longest_wait;
  asking.pause = [progress](Duration wait) { return progress->Wait(wait); };
  asking.on_trouble = [progress](const Status& why) {
    progress->SetTrouble(fmt::format("{}; it is tried again", why.message()));
  };
  store::ObjectReader reader(
      access, options.limits, [progress] { return progress->is_cancelled(); }, std::move(asking));
  PS_ASSIGN(
      std::vector<store::StoredObject> objects,
      reader.List(
          kObjectsMax, [format](std::string_view name) { return CouldBeData(format, name); }));
  progress->SetTrouble("");
  if (objects.empty()) {
    return Status::NotFound(fmt::format(
        "nothing below {}/ is called like data of the format {}; put the files there, or correct "
        "the prefix",
        reader.name(),
        FormatName(format)));
  }
  PS_TRY(CheckNames(objects).Annotate(reader.name()));
  uint64_t bytes = 0;
  for (const store::StoredObject& object : objects) {
    if (object.bytes > kStoredBytesMax - bytes) {
      return Status::InvalidArgument(fmt::format(
          "{} has more than {}; allowed: up to so much",
          reader.name(),
          FormatBytes(kStoredBytesMax)));
    }
    bytes += object.bytes;
  }
  return objects;
}

/// Fetches into a folder that outlives this process, so that another one goes on, and makes that
/// the draft. Where somebody else works in it who was taken for dead, into the draft itself.
Status FetchInto(
    const std::string& draft, const std::function<Status(const std::string& folder)>& fetch) {
  const std::string slot = fs::path(draft).parent_path().string();
  const std::string parts = slot + kPartsName;
  const UniqueFd lock(::open((slot + "/objects-lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fetch(draft);
  }
  PS_TRY(CreateDirectories(parts));
  PS_TRY(fetch(parts));
  return MoveIntoPlace(parts, draft);
}

Result<std::string> Fetched(
    const proto::DataConfig& config,
    LoadProgress* progress,
    const Environment& environment,
    const FetchOptions& options) {
  const std::optional<std::string> cache = CacheOf(config, std::numeric_limits<uint64_t>::max());
  if (!cache) {
    return Status::InvalidArgument(fmt::format(
        "{} is fetched into a cache, and there is none ({}); give data.cache a folder with room",
        config.directory,
        config.cache.empty() ? "the user has no home" : "data.cache is \"off\""));
  }
  PS_ASSIGN(const store::S3Access access, store::FindS3Access(config.directory, environment));
  PS_ASSIGN(
      const std::vector<store::StoredObject> objects,
      ListData(access, config.format, progress, options));
  const CacheKey key = {
      .what = fmt::format(
          "objects of {}/{} at \"{}\", as {}",
          access.location.bucket,
          access.location.prefix,
          access.location.endpoint,
          FormatName(config.format)),
      .state = StateOf(objects)};
  const auto fetch = [&](const std::string& folder) {
    return FetchObjects(access, objects, key.state, folder, progress, options);
  };
  PS_ASSIGN(
      const std::string folder, FindOrMake(*cache, key, progress, [&](const std::string& draft) {
        return FetchInto(draft, fetch);
      }));
  return folder + "/files";
}

}  // namespace

bool IsInStore(const std::string& directory) {
  return store::IsS3(directory);
}

Result<proto::DataConfig> DataHere(const proto::DataConfig& config, LoadProgress* progress) {
  return DataHere(config, progress, ProcessEnvironment(), FetchOptions());
}

Result<proto::DataConfig> DataHere(
    const proto::DataConfig& config,
    LoadProgress* progress,
    const Environment& environment,
    const FetchOptions& options) {
  if (!IsInStore(config.directory)) {
    return config;
  }
  LoadProgress unasked;
  Result<std::string> folder =
      Fetched(config, progress == nullptr ? &unasked : progress, environment, options);
  if (!folder.ok()) {
    return folder.status().code() == StatusCode::kCancelled
               ? std::move(folder).status()
               : std::move(folder).status().Annotate("data.directory");
  }
  proto::DataConfig here = config;
  here.directory = std::move(folder).value();
  return here;
}

}  // namespace ps::worker
