#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/data/load_progress.h"

namespace ps::worker {

// What costs time to make of data files is made once by a machine, and found by all later processes
// until the files change:
//   <cache>/<made of what>/<state of the files>/   what was made, and `key`, which says of what
//   <cache>/<made of what>/draft-<process>-<n>/    is being made
//   <cache>/<made of what>/lock                    by whom
// Names are checksums; that a folder is the right one is decided by its `key`.

/// What something is made of.
struct CacheKey {
  std::string what;   // "tokens of /data with ...": what and how, but for the state of the files
  std::string state;  // names, with that of their folder, sizes and times of the files
  /// For so long after it was asked for another state stays: of files that are read by name.
  std::chrono::seconds others_stay{0};
};

/// `what` and how the files are now. Errors: kIo.
Result<CacheKey> KeyOf(std::string what, const std::vector<std::string>& files);

/// Where what is made of so many bytes is kept: data.cache, or the user's cache where that is
/// empty. Nothing: it isn't (data.cache is "off", there is no home, fewer bytes than 16 MiB of a
/// job that names no folder).
std::optional<std::string> CacheOf(const proto::DataConfig& config, uint64_t bytes);

/// The folder of what was made, now or before. `make` fills one. While another process makes the
/// same, this one waits for it, unless that has neither written nor advanced its progress for
/// `patience`. What was made of an older state goes, what was not asked for in 30 days, and what
/// somebody has left half made for an hour.
/// Errors: those of `make`; kCancelled; kUnavailable, the cache can't be used.
Result<std::string> FindOrMake(
    const std::string& cache,
    const CacheKey& key,
    LoadProgress* progress,
    const std::function<Status(const std::string& folder)>& make,
    std::chrono::milliseconds patience = std::chrono::seconds(30));

/// The same for the files of a set: `open` reads what `make` has written to a folder, and false is
/// given where there is no cache or none that can be used, which `note` then says. What can't be
/// opened is made again once. Errors: those of `make` and `open` but kUnavailable; kIo; kCancelled.
Result<bool> OpenOrMake(
    const proto::DataConfig& config,
    const std::string& what,
    const std::vector<std::string>& files,
    LoadProgress* progress,
    const std::function<Status(const std::string& folder)>& make,
    const std::function<Status(const std::string& folder)>& open,
    std::string* note);

/// The folder of what was made before, whatever the state was then; nothing: there is none.
std::optional<std::string> FindMade(const std::string& cache, const std::string& what);

/// The error of writing to a cache, of which `make` tells it by its code: kUnavailable.
Status OfCache(const Status& written);

/// A path as all processes of a machine name it.
std::string Canonical(const std::string& path);

}  // namespace ps::worker
