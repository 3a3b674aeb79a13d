#include "run/directory/copies.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/remote/copies.h"
#include "checkpoint/remote/download.h"
#include "checkpoint/remote/place.h"
#include "checkpoint/remote/writer_mark.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "provisioner/fleet/agent_process.h"
#include "ps/base/text.h"
#include "ps/coordinator/checkpoints/job_disk.h"
#include "ps/store/s3_settings.h"
#include "run/directory/borrowed_job.h"
#include "run/directory/files.h"

namespace ps::run {
namespace {

using checkpoint::CheckpointId;
using store::ObjectStore;

bool Wait(Duration duration) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, duration, [] { return false; });
  return true;
}

/// Numbers go on behind those that the store has, also behind the damaged ones.
Status NoteNumber(
    checkpoint::Storage& storage,
    const std::string& path,
    CheckpointId newest,
    const std::string& place) {
  PS_ASSIGN(
      const auto job, checkpoint::JobStore::Open(storage, path, checkpoint::OpenMode::kWrite));
  PS_TRY(NoteOrigin(*job, newest, store::IsS3(place) ? place : AbsolutePath(place)));
  const std::string next = std::to_string(newest + 1);
  const checkpoint::RowChange change{
      .kind = checkpoint::ChangeKind::kPut,
      .key = coordinator::kNextCheckpointRow,
      .value = std::as_bytes(std::span(next))};
  return job->WriteRows({&change, 1});
}

/// "s3://bucket/a/b?x" is "bucket-a-b".
std::string FolderNameOf(const std::string& place) {
  const size_t scheme = place.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  std::string name;
  for (const char c : place.substr(begin, place.find('?') - begin)) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    if (is_plain || (!name.empty() && name.back() != '-')) {
      name.push_back(is_plain ? c : '-');
    }
  }
  while (name.ends_with('-')) {
    name.pop_back();
  }
  return name;
}

/// Whoever may list may not write yet, and what is written under a name that the store takes for
/// another one is not listed.
Status CheckIsWritable(ObjectStore& store) {
  const std::string writer = checkpoint::MakeWriterName();
  PS_TRY(store.Put(checkpoint::kProbeKey, std::as_bytes(std::span(writer))));
  PS_ASSIGN(const std::vector<store::ObjectInfo> objects, store.List(""));
  PS_TRY(store.Delete(checkpoint::kProbeKey));
  const bool is_listed = std::any_of(objects.begin(), objects.end(), [](const auto& object) {
    return object.key == checkpoint::kProbeKey;
  });
  if (!is_listed) {
    return Status::InvalidArgument(fmt::format(
        "{} takes an object and does not list it: nobody would find a copy there. Choose a place "
        "with a plainer name",
        store.name()));
  }
  return Status::Ok();
}

bool HasCheckpoints(const std::string& path) {
  const auto job = checkpoint::JobStore::Open(
      *checkpoint::MakeRocksDbStorage(), path, checkpoint::OpenMode::kRead);
  const auto ids = job.ok() ? (*job)->Manifests() : job.status();
  return ids.ok() && !ids->empty();
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> OpenCopies(const std::string& place) {
  return checkpoint::OpenObjectStore(place, ProcessEnvironment(), Wait, nullptr);
}

std::function<void(uint64_t, uint64_t)> BytesProgress(const Console& console, std::string what) {
  return [&console, what = std::move(what)](uint64_t done, uint64_t total) {
    if (console.is_err_terminal) {
      console.err(fmt::format(
          "\r{} {} of {}   {}",
          what,
          FormatBytes(done),
          FormatBytes(total),
          done == total ? "\r\x1b[K" : ""));
    }
  };
}

Status FetchNewest(
    ObjectStore& store, const std::string& place, const std::string& path, const Console& console) {
  const auto storage = checkpoint::MakeRocksDbStorage();
  PS_ASSIGN(
      const checkpoint::DownloadReport report,
      checkpoint::Download(store, *storage, path, BytesProgress(console, "fetching")));
  PS_TRY(NoteNumber(*storage, path, report.newest, place));
  for (const std::string& skipped : report.skipped) {
    console.err("skipped: " + Printable(skipped) + "\n");
  }
  console.err(fmt::format(
      "fetched checkpoint {} from {} to {}: {} received, {} there already\n",
      report.id,
      Printable(store.name()),
      Printable(path),
      FormatBytes(report.received_bytes),
      FormatBytes(report.present_bytes)));
  return Status::Ok();
}

Result<checkpoint::Manifest> ReadNewestCopy(const std::string& place) {
  PS_ASSIGN(const std::unique_ptr<ObjectStore> store, OpenCopies(place));
  PS_ASSIGN(const std::vector<CheckpointId> ids, checkpoint::ListCopies(*store));
  Result<checkpoint::Manifest> newest =
      Status::NotFound(fmt::format("no checkpoints in {}", store->name()));
  for (auto id = ids.rbegin(); id != ids.rend() && !newest.ok(); ++id) {
    newest = checkpoint::ReadCopiedManifest(*store, *id);
  }
  return newest;
}

Result<std::string> FetchCheckpoint(
    const std::string& place, const std::string& parent, const Console& console) {
  PS_ASSIGN(const std::unique_ptr<ObjectStore> store, OpenCopies(place));
  const std::string stem = AbsolutePath(parent) + "/fetched-" + FolderNameOf(place);
  std::string path = stem;
  for (int n = 2; HasCheckpoints(path); ++n) {
    path = fmt::format("{}-{}", stem, n);
  }
  PS_TRY(FetchNewest(*store, place, path, console));
  return path;
}

Status CheckCopyTarget(const std::string& place) {
  PS_ASSIGN(
      const std::unique_ptr<ObjectStore> store, OpenCopies(place).Annotate("checkpoint.copy_to"));
  PS_ASSIGN(
      const std::vector<CheckpointId> ids,
      checkpoint::ListCopies(*store).Annotate("checkpoint.copy_to"));
  if (!ids.empty()) {
    return Status::InvalidArgument(fmt::format(
        "checkpoint.copy_to: {} has checkpoints already, the newest is {}; go on from it with "
        "psctl resume {}, or choose another place with --set checkpoint.copy_to=PLACE",
        store->name(),
        ids.back(),
        provisioner::ShellQuoted({place})));
  }
  return CheckIsWritable(*store).Annotate("checkpoint.copy_to");
}

}  // namespace ps::run
