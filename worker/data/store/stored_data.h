#pragma once

#include <cstdint>
#include <string>

#include "ps/base/status.h"
#include "ps/process/environment.h"
#include "ps/proto/job/job_config.h"
#include "worker/data/load_progress.h"
#include "worker/data/store/object_fetch.h"

namespace ps::worker {

/// Whether a folder of data lies in an object store: "s3://BUCKET/PREFIX".
bool IsInStore(const std::string& directory);

/// What will do of data in a store.
enum class StoredState : uint8_t {
  /// As the store lists it now.
  kNow,
  /// Where the store can't be asked, because this machine has no keys or because it is away, what
  /// the cache has of it: for workers, whose fingerprints are compared with that of the run. Those
  /// on psctl's machine don't see its keys, and find what psctl has fetched.
  kAsCached,
  /// What the cache has, without asking the store; as kNow where it has nothing: for a coordinator
  /// that goes on with a run whose others wait for it.
  kCachedFirst,
};

struct FetchedData {
  proto::DataConfig config;
  std::string note = {};  // for people; empty when there is nothing to say
};

/// The same config with its data on this machine: as it is, unless data.directory or
/// data.tokenizer is in an object store. Then each is a folder of data.cache, or of the user's,
/// that has the objects which could be data of the format, or a tokenizer: fetched by the first
/// process of the machine that asks, waited for by the others, and found until the list of the
/// bucket differs. Names and bytes are those of the objects, so everything that is read from them
/// is what it would be from a folder. Errors: kCancelled; all others begin with the field,
/// "data.directory: ". Those of store::FindS3Access, ObjectReader, FetchObjects and FindOrMake;
/// kNotFound, nothing there could be data; kInvalidArgument, no cache (data.cache is "off", or
/// there is no home).
Result<FetchedData> DataHere(
    const proto::DataConfig& config, LoadProgress* progress, StoredState state = StoredState::kNow);

/// The same, as tests want it.
Result<FetchedData> DataHere(
    const proto::DataConfig& config,
    LoadProgress* progress,
    StoredState state,
    const Environment& environment,
    const FetchOptions& options);

}  // namespace ps::worker
