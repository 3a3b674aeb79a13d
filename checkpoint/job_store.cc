#include "checkpoint/job_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "checkpoint/keys.h"

namespace ps::checkpoint {
namespace {

/// Keys of rows: this and MakeIdKey. Value: '1' or '0' for is_corrupt, then the reason.
constexpr std::string_view kSetAsidePrefix = "set_aside/";

}  // namespace

Result<std::unique_ptr<JobStore>> JobStore::Open(
    Storage& storage, const std::string& path, OpenMode mode) {
  PS_ASSIGN(auto index, JobIndex::Open(storage, path, mode));
  std::unique_ptr<JobStore> store(new JobStore(std::move(index)));
  PS_ASSIGN(const std::vector<CheckpointId> manifests, store->Manifests());
  store->newest_ = manifests.empty() ? 0 : manifests.back();
  return store;
}

JobStore::JobStore(std::unique_ptr<JobIndex> index) : index_(std::move(index)) {}

Status JobStore::PutManifest(CheckpointId id, std::span<const std::byte> manifest) {
  PS_ASSIGN(const std::vector<CheckpointId> ids, Manifests());
  if (id == 0 || (!ids.empty() && id <= ids.back())) {
    return Status::InvalidArgument(fmt::format(
        "checkpoint {} is there already, {} can't be written after it",
        ids.empty() ? 0 : ids.back(),
        id));
  }
  const std::string key = MakeIdKey(id);
  const Change change{
      .kind = ChangeKind::kPut, .column = kManifestColumn, .key = key, .value = {manifest}};
  PS_TRY(index_->Write({&change, 1}, Durability::kSynced)
             .Annotate(fmt::format("writing the manifest of checkpoint {}", id)));
  newest_ = id;
  return Status::Ok();
}

Result<std::vector<std::byte>> JobStore::ReadManifest(CheckpointId id) {
  std::vector<std::byte> manifest;
  const auto visit = [&](std::string_view /*key*/, std::span<const std::byte> value) {
    manifest.assign(value.begin(), value.end());
    return Status::Ok();
  };
  Status read = index_->Read(kManifestColumn, MakeIdKey(id), visit);
  if (!read.ok()) {
    return std::move(read).Annotate(fmt::format("the manifest of checkpoint {}", id));
  }
  return manifest;
}

Result<std::vector<CheckpointId>> JobStore::Manifests() {
  std::vector<CheckpointId> ids;
  PS_TRY(index_->Scan(kManifestColumn, "", [&](std::string_view key, std::span<const std::byte>) {
    ids.push_back(ParseIdKey(key));
    return Status::Ok();
  }));
  return ids;
}

Status JobStore::DeleteManifest(CheckpointId id) {
  const std::string key = MakeIdKey(id);
  const Change change{
      .kind = ChangeKind::kErase, .column = kManifestColumn, .key = key, .value = {}};
  return index_->Write({&change, 1}, Durability::kSynced)
      .Annotate(fmt::format("deleting the manifest of checkpoint {}", id));
}

Status JobStore::NoteSetAside(std::span<const SetAside> all) {
  std::vector<std::string> texts;  // keys and values
  for (const SetAside& one : all) {
    texts.push_back(std::string(kSetAsidePrefix) + MakeIdKey(one.id));
    texts.push_back((one.is_corrupt ? "1" : "0") + one.why);
  }
  std::vector<RowChange> changes = {{ChangeKind::kErasePrefix, kSetAsidePrefix, {}}};
  for (size_t i = 0; i < texts.size(); i += 2) {
    changes.push_back({ChangeKind::kPut, texts[i], std::as_bytes(std::span(texts[i + 1]))});
  }
  return WriteRows(changes);
}

Result<std::vector<SetAside>> JobStore::ReadSetAside() {
  PS_ASSIGN(const std::vector<CheckpointId> ids, Manifests());
  PS_ASSIGN(const std::vector<Row> rows, ReadRows(kSetAsidePrefix));
  std::vector<SetAside> all;
  for (const Row& row : rows) {
    const CheckpointId id = ParseIdKey(std::string_view(row.key).substr(kSetAsidePrefix.size()));
    const std::string text(reinterpret_cast<const char*>(row.value.data()), row.value.size());
    if (!text.empty() && std::ranges::binary_search(ids, id)) {
      all.push_back({id, text[0] == '1', text.substr(1)});
    }
  }
  return all;
}

Status JobStore::WriteRows(std::span<const RowChange> changes) {
  std::vector<Change> all;
  all.reserve(changes.size());
  for (const RowChange& change : changes) {
    all.push_back({.kind = change.kind, .column = kRowColumn, .key = change.key, .value = {}});
    if (change.kind == ChangeKind::kPut) {
      all.back().value.push_back(change.value);
    }
  }
  return index_->Write(all, Durability::kLogged).Annotate("writing rows of the job");
}

Result<std::vector<Row>> JobStore::ReadRows(std::string_view prefix) {
  std::vector<Row> rows;
  Status read =
      index_->Scan(kRowColumn, prefix, [&](std::string_view key, std::span<const std::byte> value) {
        rows.push_back({.key = std::string(key), .value = {value.begin(), value.end()}});
        return Status::Ok();
      });
  if (!read.ok()) {
    return std::move(read).Annotate("reading rows of the job");
  }
  return rows;
}

}  // namespace ps::checkpoint
