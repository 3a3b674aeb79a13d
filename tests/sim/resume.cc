#include "tests/sim/resume.h"

#include <algorithm>

#include "checkpoint/job_store.h"
#include "checkpoint/reader.h"
#include "checkpoint/storage/failure.h"

namespace ps::sim {
namespace {

proto::KeptCheckpoint KeptOf(checkpoint::CheckpointId id, checkpoint::Reader* reader) {
  const auto manifest = reader->ReadManifest(id);
  return manifest.ok() ? proto::KeptCheckpoint{
                             id,
                             static_cast<uint32_t>(manifest->parts.size()),
                             manifest->progress.steps,
                             manifest->progress.samples}
                       : proto::KeptCheckpoint{id, 0, 0, 0};
}

}  // namespace

Result<FoundCheckpoint> FindNewestCheckpoint(
    checkpoint::Storage& storage, const std::string& path) {
  FoundCheckpoint found;
  PS_ASSIGN(
      const auto store, checkpoint::JobStore::Open(storage, path, checkpoint::OpenMode::kWrite));
  PS_ASSIGN(found.set_aside, store->ReadSetAside());
  PS_ASSIGN(const auto reader, checkpoint::Reader::Open(storage, path));
  const auto is_set_aside = [&](checkpoint::CheckpointId id) {
    return std::ranges::find(found.set_aside, id, &checkpoint::SetAside::id) !=
           found.set_aside.end();
  };
  std::vector<checkpoint::SetAside> skipped;  // the newest first
  for (auto id = reader->ids().rbegin(); id != reader->ids().rend(); ++id) {
    const std::vector<checkpoint::Damage> damages = reader->Verify(*id);
    if (!damages.empty()) {
      const Status& why = damages.front().status;
      skipped.push_back({*id, checkpoint::IsProvedCorrupt(why), std::string(why.message())});
      continue;
    }
    PS_ASSIGN(found.manifest, reader->ReadManifest(*id));
    std::erase_if(found.set_aside, [&](const checkpoint::SetAside& one) { return one.id >= *id; });
    for (const checkpoint::CheckpointId older : reader->ids()) {
      if (older <= *id && !is_set_aside(older)) {
        found.kept.push_back(KeptOf(older, reader.get()));
      }
    }
    found.set_aside.insert(found.set_aside.end(), skipped.rbegin(), skipped.rend());
    PS_TRY(store->NoteSetAside(found.set_aside));
    return found;
  }
  return Status::NotFound("no checkpoint can be read");
}

}  // namespace ps::sim
