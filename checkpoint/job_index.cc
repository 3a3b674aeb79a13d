#include "checkpoint/job_index.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "checkpoint/keys.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_store.h"
#include "checkpoint/storage/failure.h"

namespace ps::checkpoint {
namespace {

Result<std::set<std::string>> ManifestKeys(Database& database) {
  std::set<std::string> keys;
  PS_TRY(database.Scan(
      kManifestColumn, "", [&](std::string_view key, std::span<const std::byte> /*value*/) {
        keys.emplace(key);
        return Status::Ok();
      }));
  return keys;
}

/// One whose manifests can't be listed is as bad as one that can't be opened.
Result<std::unique_ptr<Database>> OpenOne(
    Storage& storage, const std::string& directory, OpenMode mode) {
  PS_ASSIGN(auto database, storage.Open(directory, kJobColumns, mode));
  PS_TRY(ManifestKeys(*database).status());
  return database;
}

std::set<std::string> Without(std::set<std::string> keys, const std::set<std::string>& others) {
  std::erase_if(keys, [&](const std::string& key) { return others.contains(key); });
  return keys;
}

Status CopyManifest(Database* from, Database* to, const std::string& key) {
  return from->Read(
      kManifestColumn,
      key,
      ReadCheck::kEngine,
      [&](std::string_view /*key*/, std::span<const std::byte> value) {
        const Change change{
            .kind = ChangeKind::kPut, .column = kManifestColumn, .key = key, .value = {value}};
        return to->Write({&change, 1}, Durability::kSynced);
      });
}

}  // namespace

std::string JobDirectory(const std::string& path) {
  return path + "/job";
}

std::string JobCopyDirectory(const std::string& path) {
  return path + "/job.copy";
}

std::string IndexDamageText(const IndexDamage& damage, const std::string& path) {
  constexpr const char* kAlone =
      "{} is damaged and not used, {} is used alone; psctl checkpoint copy {} makes a whole path "
      "elsewhere: {}\n";
  const std::string main = JobDirectory(path);
  const std::string copy = JobCopyDirectory(path);
  std::string text;
  if (!damage.lost.empty()) {
    text += fmt::format(
        "{} is damaged and had lost the manifests of checkpoints {}; put back from {}, no "
        "checkpoint is lost\n",
        main,
        fmt::join(damage.lost, ", "),
        copy);
  }
  if (!damage.dropped.empty()) {
    text += fmt::format(
        "{} had manifests of checkpoints {} whose values are gone: an older program, which knows "
        "no such copy, removed them; they are removed there, too\n",
        copy,
        fmt::join(damage.dropped, ", "));
  }
  if (!damage.unmatched.empty()) {
    text += fmt::format(
        "{} has manifests of checkpoints {} that {} has not: they were removed, and damage has "
        "brought them back, or a disk was full\n",
        main,
        fmt::join(damage.unmatched, ", "),
        copy);
  }
  if (!damage.broken.ok()) {
    text += fmt::format(kAlone, main, copy, path, damage.broken.message());
  }
  if (!damage.copy_broken.ok()) {
    text += fmt::format(kAlone, copy, main, path, damage.copy_broken.message());
  }
  return text;
}

Result<std::unique_ptr<JobIndex>> JobIndex::Open(
    Storage& storage, const std::string& path, OpenMode mode) {
  std::unique_ptr<JobIndex> index(new JobIndex(&storage, path));
  PS_TRY(mode == OpenMode::kWrite ? index->OpenToWrite() : index->OpenToRead());
  for (const std::string& key : index->lost_) {
    index->damage_.lost.push_back(ParseIdKey(key));
  }
  for (const std::string& key : index->dropped_) {
    index->damage_.dropped.push_back(ParseIdKey(key));
  }
  if (mode == OpenMode::kWrite) {
    index->lost_.clear();  // it is there again
  }
  return index;
}

/// Beside a writer, which may put and erase between two of the lines: what both looks at the copy
/// show was there all the time in between, since no number comes twice.
Status JobIndex::OpenToRead() {
  Keys copied;
  Keys missed;
  for (int look = 0; look < 2; ++look) {
    Result<std::unique_ptr<Database>> copy =
        OpenOne(*storage_, JobCopyDirectory(path_), OpenMode::kRead);
    Result<std::unique_ptr<Database>> main =
        OpenOne(*storage_, JobDirectory(path_), OpenMode::kRead);
    if (!main.ok() && !copy.ok()) {
      return std::move(main).status();
    }
    const bool has_copy = copy.status().code() != StatusCode::kNotFound;
    damage_.copy_broken = has_copy ? copy.status() : Status::Ok();
    damage_.broken = main.status();
    copy_ = copy.ok() ? std::move(copy).value() : nullptr;
    main_ = main.ok() ? std::move(main).value() : nullptr;
    if (copy_ == nullptr || main_ == nullptr) {
      return Status::Ok();
    }
    PS_ASSIGN(Keys in_copy, ManifestKeys(*copy_));
    PS_ASSIGN(const Keys in_main, ManifestKeys(*main_));
    copied = look == 0 ? in_copy : Without(copied, Without(copied, in_copy));
    NoteUnmatched(in_main, in_copy);
    missed = Without(look == 0 ? std::move(in_copy) : missed, in_main);
    if (missed.empty()) {
      break;
    }
  }
  Keys both;
  std::ranges::set_intersection(missed, copied, std::inserter(both, both.end()));
  SortMissed(both);
  return Status::Ok();
}

void JobIndex::SortMissed(const Keys& missed) {
  for (const std::string& key : missed) {
    (HasLostItsValues(key) ? dropped_ : lost_).insert(key);
  }
}

/// Only a shard that can be read and has no part of the checkpoint shows it.
bool JobIndex::HasLostItsValues(const std::string& key) {
  const CheckpointId id = ParseIdKey(key);
  Result<Manifest> manifest = Status::NotFound("not read yet");
  const Status read = copy_->Read(
      kManifestColumn,
      key,
      ReadCheck::kEngine,
      [&](std::string_view /*key*/, std::span<const std::byte> value) {
        manifest = DecodeManifest(id, value);
        return manifest.status();
      });
  return read.ok() && std::ranges::any_of(manifest->parts, [&](const ManifestPart& part) {
           const auto shard = ShardStore::Open(*storage_, path_, part.directory, OpenMode::kRead);
           return shard.ok() && (*shard)->PartCrc(id).status().code() == StatusCode::kNotFound;
         });
}

Status JobIndex::OpenToWrite() {
  Result<std::unique_ptr<Database>> main =
      OpenOne(*storage_, JobDirectory(path_), OpenMode::kWrite);
  if (main.ok()) {
    main_ = std::move(main).value();
  } else if (IsUnusable(main.status())) {
    damage_.broken = main.status();
    // A copy that is empty, or made just now, is none.
    auto copy = OpenOne(*storage_, JobCopyDirectory(path_), OpenMode::kRead);
    const Result<Keys> keys = copy.ok() ? ManifestKeys(**copy) : copy.status();
    if (!keys.ok() || keys->empty()) {
      return damage_.broken;
    }
  } else {
    return std::move(main).status();
  }
  Result<std::unique_ptr<Database>> copy =
      OpenOne(*storage_, JobCopyDirectory(path_), OpenMode::kWrite);
  if (copy.ok()) {
    copy_ = std::move(copy).value();
  } else if (main_ != nullptr && IsUnusable(copy.status())) {
    damage_.copy_broken = copy.status();
  } else {
    return std::move(copy).status();
  }
  return main_ != nullptr && copy_ != nullptr ? MakeAlike() : Status::Ok();
}

Status JobIndex::MakeAlike() {
  PS_ASSIGN(const Keys in_main, ManifestKeys(*main_));
  PS_ASSIGN(Keys in_copy, ManifestKeys(*copy_));
  SortMissed(Without(in_copy, in_main));
  for (const std::string& key : lost_) {
    PS_TRY(CopyManifest(copy_.get(), main_.get(), key));
  }
  for (const std::string& key : dropped_) {
    const Change change{
        .kind = ChangeKind::kErase, .column = kManifestColumn, .key = key, .value = {}};
    PS_TRY(copy_->Write({&change, 1}, Durability::kSynced));
    in_copy.erase(key);
  }
  NoteUnmatched(in_main, in_copy);
  for (const std::string& key : Without(in_main, in_copy)) {
    if (!in_copy.empty() && key < *in_copy.rbegin()) {
      continue;  // erased, it seems: the copy stays what tells
    }
    if (const Status copied = CopyManifest(main_.get(), copy_.get(), key);
        copied.code() == StatusCode::kIo) {
      return copied;  // a damaged one is found out when it is asked for
    }
  }
  // What has lost the newest manifests has lost the rows after them, too.
  const bool has_lost_rows =
      !lost_.empty() && (in_main.empty() || *in_main.rbegin() < *lost_.rbegin());
  return has_lost_rows ? CopyRows(copy_.get(), main_.get()) : CopyRows(main_.get(), copy_.get());
}

void JobIndex::NoteUnmatched(const Keys& in_main, const Keys& in_copy) {
  damage_.unmatched.clear();
  for (const std::string& key : Without(in_main, in_copy)) {
    if (!in_copy.empty() && key < *in_copy.rbegin()) {
      damage_.unmatched.push_back(ParseIdKey(key));
    }
  }
  if (damage_.unmatched.size() == 1) {
    damage_.unmatched.clear();
  }
}

Status JobIndex::CopyRows(Database* from, Database* to) {
  std::vector<std::pair<std::string, std::vector<std::byte>>> rows;
  PS_TRY(from->Scan(kRowColumn, "", [&](std::string_view key, std::span<const std::byte> value) {
    rows.emplace_back(key, std::vector<std::byte>(value.begin(), value.end()));
    return Status::Ok();
  }));
  std::vector<Change> changes = {
      {.kind = ChangeKind::kErasePrefix, .column = kRowColumn, .key = "", .value = {}}};
  for (const auto& [key, value] : rows) {
    changes.push_back(
        {.kind = ChangeKind::kPut, .column = kRowColumn, .key = key, .value = {value}});
  }
  return to->Write(changes, Durability::kLogged);
}

Status JobIndex::Write(std::span<const Change> changes, Durability durability) {
  const bool only_erases = std::ranges::none_of(
      changes, [](const Change& change) { return change.kind == ChangeKind::kPut; });
  if (copy_ != nullptr && (only_erases || main_ == nullptr)) {
    PS_TRY(copy_->Write(changes, durability));
  }
  if (main_ != nullptr) {
    PS_TRY(main_->Write(changes, durability));
  }
  if (copy_ != nullptr && main_ != nullptr && !only_erases) {
    copy_->Write(changes, durability).Ignore("it is added when the index is opened again");
  }
  return Status::Ok();
}

Status JobIndex::Read(Column column, std::string_view key, const Database::Visitor& visit) {
  if (main_ == nullptr) {
    return copy_->Read(column, key, ReadCheck::kEngine, visit);
  }
  std::vector<std::byte> bytes;
  const auto take = [&](std::string_view /*key*/, std::span<const std::byte> value) {
    bytes.assign(value.begin(), value.end());
    return Status::Ok();
  };
  Status read = main_->Read(column, key, ReadCheck::kEngine, take);
  if (!read.ok() && copy_ != nullptr && copy_->Read(column, key, ReadCheck::kEngine, take).ok()) {
    read = Status::Ok();
  }
  return read.ok() ? visit(key, bytes) : read;
}

Status JobIndex::Scan(Column column, std::string_view prefix, const Database::Visitor& visit) {
  if (main_ == nullptr) {
    return copy_->Scan(column, prefix, visit);
  }
  if (column != kManifestColumn || lost_.empty()) {
    return main_->Scan(column, prefix, visit);
  }
  auto lost = lost_.lower_bound(std::string(prefix));
  const auto visit_lost = [&](const auto& is_next) {
    for (; lost != lost_.end() && lost->starts_with(prefix) && is_next(*lost); ++lost) {
      PS_TRY(copy_->Read(column, *lost, ReadCheck::kEngine, visit));
    }
    return Status::Ok();
  };
  PS_TRY(main_->Scan(
      column, prefix, [&](std::string_view key, std::span<const std::byte> value) -> Status {
        PS_TRY(visit_lost([&](const std::string& other) { return other < key; }));
        return visit(key, value);
      }));
  return visit_lost([](const std::string& /*other*/) { return true; });
}

}  // namespace ps::checkpoint
