#include "worker/data/store/stored_data.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
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
/// A process that has begun to read the files before is done with it then.
constexpr std::chrono::hours kOthersStay{24};
/// Where the cache has something that will do.
constexpr int kAttemptsMax = 3;
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

/// What of a job is to be brought.
struct Wanted {
  std::string place;  // "s3://..."
  std::string kind;   // "csv", "tokenizer"
  std::function<bool(std::string_view name)> could_be_it;
};

Wanted DataOf(const proto::DataConfig& config) {
  const bool has_folder =
      config.format == proto::DatasetFormat::kText && !config.validation.empty();
  return {
      .place = config.directory,
      .kind = FormatName(config.format) + (has_folder ? " with " + config.validation : ""),
      .could_be_it = [format = config.format, part = config.validation](std::string_view name) {
        return CouldBeData(format, name, part);
      }};
}

Wanted TokenizerOf(const proto::DataConfig& config) {
  return {.place = config.tokenizer, .kind = "tokenizer", .could_be_it = [](std::string_view name) {
            return name == "vocab.json" || name == "merges.txt";
          }};
}

/// Lists the objects that are wanted. Waits and repetitions are those of a fetch.
Result<std::vector<store::StoredObject>> ListWanted(
    const store::S3Access& access,
    const Wanted& wanted,
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
  PS_ASSIGN(std::vector<store::StoredObject> objects, reader.List(kObjectsMax, wanted.could_be_it));
  progress->SetTrouble("");
  if (objects.empty()) {
    return Status::NotFound(fmt::format(
        "nothing below {}/ is called like files of the kind {}; put the files there, or correct "
        "the prefix",
        reader.name(),
        wanted.kind));
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

/// Where what is fetched of a place lies in the cache. Of the endpoint what the place itself says:
/// workers may not know that of the environment.
std::string SlotOf(const store::S3Location& location, const Wanted& wanted) {
  const size_t query = wanted.place.find('?');
  return fmt::format(
      "objects of {}/{}{}, as {}",
      location.bucket,
      location.prefix,
      query == std::string::npos ? "" : " at " + wanted.place.substr(query + 1),
      wanted.kind);
}

struct Found {
  std::string folder;
  std::string note = {};
};

/// One bringing of files to this machine.
struct Bringing {
  const Wanted& wanted;
  const std::string cache;
  LoadProgress* const progress;
  const StoredState state;
  const Environment& environment;
  const FetchOptions& options;

  /// What the cache has, if that will do, because the store can't be asked; else `why`.
  Result<Found> Cached(const std::optional<std::string>& made, const Status& why) const {
    if (!made || state != StoredState::kAsCached) {
      return why;
    }
    progress->SetTrouble("");
    return Found{
        .folder = *made + "/files",
        .note = fmt::format(
            "data are those that this machine has of {}, as they were: {}",
            wanted.place,
            why.message())};
  }

  Status ForWorkers(const Status& why) const {
    return state != StoredState::kAsCached
               ? why
               : Status(
                     why.code(),
                     fmt::format(
                         "{}; workers don't see the variables AWS_* of psctl: give their machine a "
                         "role, or a file ~/.aws/credentials, and the place its region and "
                         "endpoint",
                         why.message()));
  }

  Result<Found> Bring() const {
    PS_ASSIGN(const store::S3Location location, store::ParseS3Location(wanted.place));
    const std::optional<std::string> made =
        state == StoredState::kNow ? std::nullopt : FindMade(cache, SlotOf(location, wanted));
    if (made && state == StoredState::kCachedFirst) {
      return Found{.folder = *made + "/files"};
    }
    const Result<store::S3Access> access = store::FindS3Access(wanted.place, environment);
    if (!access.ok()) {
      return Cached(made, ForWorkers(access.status()));
    }
    FetchOptions asking = options;
    if (made) {
      asking.attempts_max = std::min(asking.attempts_max, kAttemptsMax);
    }
    const Result<std::vector<store::StoredObject>> objects =
        ListWanted(*access, wanted, progress, asking);
    if (!objects.ok()) {
      const StatusCode code = objects.status().code();
      const bool is_away =
          code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded;
      return code == StatusCode::kCancelled
                 ? Result<Found>(objects.status())
                 : Cached(made, is_away ? objects.status() : ForWorkers(objects.status()));
    }
    const CacheKey key = {
        .what = SlotOf(location, wanted), .state = StateOf(*objects), .others_stay = kOthersStay};
    const auto fetch = [&](const std::string& folder) {
      return FetchObjects(*access, *objects, key.state, folder, progress, options);
    };
    PS_ASSIGN(
        const std::string folder, FindOrMake(cache, key, progress, [&](const std::string& draft) {
          return FetchInto(draft, fetch);
        }));
    return Found{.folder = folder + "/files"};
  }
};

}  // namespace

bool IsInStore(const std::string& directory) {
  return store::IsS3(directory);
}

Result<FetchedData> DataHere(
    const proto::DataConfig& config, LoadProgress* progress, StoredState state) {
  return DataHere(config, progress, state, ProcessEnvironment(), FetchOptions());
}

Result<FetchedData> DataHere(
    const proto::DataConfig& config,
    LoadProgress* progress,
    StoredState state,
    const Environment& environment,
    const FetchOptions& options) {
  FetchedData data = {.config = config};
  LoadProgress unasked;
  const auto bring = [&](const char* field, const Wanted& wanted, std::string* folder) -> Status {
    if (!IsInStore(wanted.place)) {
      return Status::Ok();
    }
    const std::optional<std::string> cache = CacheOf(config, std::numeric_limits<uint64_t>::max());
    if (!cache) {
      return Status::InvalidArgument(fmt::format(
          "{}: {} is fetched into a cache, and there is none ({}); give data.cache a folder with "
          "room",
          field,
          wanted.place,
          config.cache.empty() ? "the user has no home" : "data.cache is \"off\""));
    }
    const Bringing bringing = {
        .wanted = wanted,
        .cache = *cache,
        .progress = progress == nullptr ? &unasked : progress,
        .state = state,
        .environment = environment,
        .options = options};
    Result<Found> found = bringing.Bring();
    if (!found.ok()) {
      return found.status().code() == StatusCode::kCancelled
                 ? std::move(found).status()
                 : std::move(found).status().Annotate(field);
    }
    *folder = found->folder;
    data.note += (data.note.empty() || found->note.empty() ? "" : "; ") + found->note;
    return Status::Ok();
  };
  PS_TRY(bring("data.tokenizer", TokenizerOf(config), &data.config.tokenizer));
  PS_TRY(bring("data.directory", DataOf(config), &data.config.directory));
  return data;
}

}  // namespace ps::worker
