#include "tests/checkpoint/memory_storage.h"

#include <fmt/core.h>

#include <mutex>
#include <utility>

#include "ps/base/check.h"

namespace ps::checkpoint {
namespace {

using Value = std::shared_ptr<std::vector<std::byte>>;
using Table = std::map<std::pair<Column, std::string>, Value>;

/// A change that owns what it is made of.
struct Entry {
  ChangeKind kind = ChangeKind::kPut;
  Column column = 0;
  std::string key;
  Value value;
};

void Apply(const Entry& entry, Table* table) {
  const std::pair<Column, std::string> key(entry.column, entry.key);
  switch (entry.kind) {
    case ChangeKind::kPut:
      (*table)[key] = entry.value;
      break;
    case ChangeKind::kErase:
      table->erase(key);
      break;
    case ChangeKind::kErasePrefix: {
      auto it = table->lower_bound(key);
      while (it != table->end() && it->first.first == entry.column &&
             it->first.second.starts_with(entry.key)) {
        it = table->erase(it);
      }
      break;
    }
  }
}

void ApplyAll(std::vector<Entry>* entries, Table* table) {
  for (const Entry& entry : *entries) {
    Apply(entry, table);
  }
  entries->clear();
}

}  // namespace

/// What is on the disk, and how safely. A value is shared by the tables that have it.
/// Thread: any, each access under the mutex.
struct MemoryStorage::Disk {
  std::mutex mutex;
  Table live;                      // what the open database sees
  Table logged;                    // what survives the process
  Table synced;                    // what survives the machine
  std::vector<Entry> not_flushed;  // in live alone
  std::vector<Entry> not_synced;   // in logged, not in synced
  bool has_writer = false;
  bool has_failed = false;  // the writer has to open it anew
  uint64_t losses = 0;      // of the writer

  /// As when the writer's process ends.
  void LoseUnflushed() {
    not_flushed.clear();
    live = logged;
  }
};

namespace {

/// Whether `directory` is `path` or below it.
bool IsAtOrBelow(const std::string& directory, const std::string& path) {
  return path.empty() || directory == path || directory.starts_with(path + "/");
}

}  // namespace

class MemoryStorage::OpenDatabase final : public Database {
 public:
  OpenDatabase(
      std::string directory, std::shared_ptr<Disk> disk, OpenMode mode, MemoryStorage* storage)
      : directory_(std::move(directory)),
        disk_(std::move(disk)),
        mode_(mode),
        table_(mode == OpenMode::kWrite ? &disk_->live : &disk_->logged),
        storage_(storage) {}

  OpenDatabase(const OpenDatabase&) = delete;
  OpenDatabase& operator=(const OpenDatabase&) = delete;

  ~OpenDatabase() override {
    if (mode_ == OpenMode::kWrite) {
      const std::lock_guard lock(disk_->mutex);
      disk_->has_writer = false;
      disk_->LoseUnflushed();
    }
  }

  Status Write(std::span<const Change> changes, Durability durability) override {
    PS_TRY(CheckWrite(Operation::kWrite));
    const std::lock_guard lock(disk_->mutex);
    for (const Change& change : changes) {
      PS_TRY(CheckKey(change.key));
    }
    for (const Change& change : changes) {
      Entry entry{
          .kind = change.kind,
          .column = change.column,
          .key = std::string(change.key),
          .value = std::make_shared<std::vector<std::byte>>()};
      for (const std::span<const std::byte> piece : change.value) {
        entry.value->insert(entry.value->end(), piece.begin(), piece.end());
      }
      Apply(entry, &disk_->live);
      if (durability == Durability::kFlush) {
        disk_->not_flushed.push_back(std::move(entry));
      } else {
        Apply(entry, &disk_->logged);
        disk_->not_synced.push_back(std::move(entry));
      }
    }
    if (durability == Durability::kSynced) {
      ApplyAll(&disk_->not_synced, &disk_->synced);
    }
    return Status::Ok();
  }

  Status Flush() override {
    PS_TRY(CheckWrite(Operation::kFlush));
    const std::lock_guard lock(disk_->mutex);
    for (const Entry& entry : disk_->not_flushed) {
      Apply(entry, &disk_->logged);
    }
    ApplyAll(&disk_->not_flushed, &disk_->synced);
    return Status::Ok();
  }

  Status Read(
      Column column, std::string_view key, ReadCheck /*check*/, const Visitor& visit) override {
    PS_TRY(Check(Operation::kRead));
    Value value;
    {
      const std::lock_guard lock(disk_->mutex);
      const auto it = table_->find({column, std::string(key)});
      if (it == table_->end()) {
        return Status::NotFound(fmt::format("not in {}", directory_));
      }
      value = it->second;
    }
    return visit(key, *value);
  }

  Status Scan(Column column, std::string_view prefix, const Visitor& visit) override {
    PS_TRY(Check(Operation::kScan));
    std::vector<std::pair<std::string, Value>> found;
    {
      const std::lock_guard lock(disk_->mutex);
      for (auto it = table_->lower_bound({column, std::string(prefix)});
           it != table_->end() && it->first.first == column && it->first.second.starts_with(prefix);
           ++it) {
        found.emplace_back(it->first.second, it->second);
      }
    }
    for (const auto& [key, value] : found) {
      PS_TRY(visit(key, *value));
    }
    return Status::Ok();
  }

  Status Prune(Column column, KeepFunction keep) override {
    PS_TRY(CheckWrite(Operation::kPrune));
    const std::lock_guard lock(disk_->mutex);
    const auto is_gone = [&](const auto& entry) {
      return entry.first.first == column && !keep(entry.first.second);
    };
    std::erase_if(disk_->live, is_gone);
    std::erase_if(disk_->logged, is_gone);
    std::erase_if(disk_->synced, is_gone);
    return Status::Ok();
  }

  uint64_t losses() const override {
    const std::lock_guard lock(disk_->mutex);
    return disk_->losses;
  }

  void LimitWrites(uint64_t /*bytes_per_s*/) override {}

 private:
  Status Check(Operation operation) const {
    return storage_->hook_ ? storage_->hook_(operation, directory_) : Status::Ok();
  }

  Status CheckWrite(Operation operation) const {
    if (mode_ == OpenMode::kRead) {
      return Status::InvalidArgument(fmt::format("{} is open for reading alone", directory_));
    }
    PS_TRY(Check(operation));
    PS_TRY(storage_->CheckSpace(directory_));
    if (HasFailed()) {
      PS_TRY(storage_->TryOpen(directory_).Annotate("opening " + directory_ + " again"));
      const std::lock_guard lock(disk_->mutex);
      disk_->has_failed = false;
    }
    return Status::Ok();
  }

  bool HasFailed() const {
    const std::lock_guard lock(disk_->mutex);
    return disk_->has_failed;
  }

  std::string directory_;
  std::shared_ptr<Disk> disk_;
  OpenMode mode_;
  Table* table_;  // what this mode sees
  MemoryStorage* storage_;
};

class MemoryStorage::OpenedMark final : public Mark {
 public:
  OpenedMark(std::string directory, MemoryStorage* storage)
      : directory_(std::move(directory)), storage_(storage) {}

  Result<std::string> Read() override {
    const std::lock_guard lock(storage_->mutex_);
    return storage_->marks_[directory_];
  }

  Status Write(std::string_view text) override {
    PS_CHECK(text.size() <= kBytesMax) << text;
    const std::lock_guard lock(storage_->mutex_);
    if (storage_->are_marks_refused_) {
      return Status::Io(directory_ + ": the disk takes no mark");
    }
    storage_->marks_[directory_] = text;
    return Status::Ok();
  }

 private:
  std::string directory_;
  MemoryStorage* storage_;
};

MemoryStorage::MemoryStorage() = default;
MemoryStorage::~MemoryStorage() = default;

Result<std::unique_ptr<Database>> MemoryStorage::Open(
    const std::string& directory, std::span<const std::string_view> /*columns*/, OpenMode mode) {
  if (hook_) {
    PS_TRY(hook_(Operation::kOpen, directory));
  }
  if (mode == OpenMode::kWrite) {
    PS_TRY(CheckSpace(directory));
    PS_TRY(TryOpen(directory).Annotate("opening " + directory));
  }
  const std::lock_guard lock(mutex_);
  const auto it = disks_.find(directory);
  if (it == disks_.end() && mode == OpenMode::kRead) {
    return Status::NotFound(fmt::format("no checkpoints in {}", directory));
  }
  std::shared_ptr<Disk>& disk = disks_[directory];
  if (disk == nullptr) {
    disk = std::make_shared<Disk>();
  }
  if (mode == OpenMode::kWrite) {
    const std::lock_guard disk_lock(disk->mutex);
    if (disk->has_writer) {
      return Status::Unavailable(fmt::format("{} is in use by this process", directory));
    }
    disk->has_writer = true;
    disk->has_failed = false;
    disk->losses = 0;
  }
  return std::unique_ptr<Database>(std::make_unique<OpenDatabase>(directory, disk, mode, this));
}

Result<std::unique_ptr<Mark>> MemoryStorage::OpenMark(const std::string& directory) {
  return std::unique_ptr<Mark>(std::make_unique<OpenedMark>(directory, this));
}

Result<std::vector<std::string>> MemoryStorage::List(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  const std::string prefix = path + "/";
  for (const auto& [directory, disk] : disks_) {
    if (directory.starts_with(prefix)) {
      const std::string rest = directory.substr(prefix.size());
      const std::string name = rest.substr(0, rest.find('/'));
      if (names.empty() || names.back() != name) {
        names.push_back(name);
      }
    }
  }
  return names;
}

Status MemoryStorage::Remove(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  const auto it = disks_.find(directory);
  if (it == disks_.end()) {
    return Status::Ok();
  }
  {
    const std::lock_guard disk_lock(it->second->mutex);
    if (it->second->has_writer) {
      return Status::Unavailable(fmt::format("{} is in use by this process", directory));
    }
  }
  disks_.erase(it);
  marks_.erase(directory);
  return Status::Ok();
}

Status MemoryStorage::TryOpen(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  for (auto& [path, failing] : failing_opens_) {
    if (failing.count > 0 && IsAtOrBelow(directory, path)) {
      --failing.count;
      return failing.why;
    }
  }
  return Status::Ok();
}

Status MemoryStorage::CheckSpace(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  for (const std::string& path : full_) {
    if (IsAtOrBelow(directory, path)) {
      return Status::Io(fmt::format("{}: the disk is full", directory));
    }
  }
  return Status::Ok();
}

void MemoryStorage::SetFull(const std::string& path, bool is_full) {
  const std::lock_guard lock(mutex_);
  if (is_full) {
    full_.insert(path);
  } else {
    full_.erase(path);
  }
}

void MemoryStorage::RefuseMarks(bool is_refused) {
  const std::lock_guard lock(mutex_);
  are_marks_refused_ = is_refused;
}

void MemoryStorage::FailOpens(const std::string& path, uint32_t count, Status why) {
  const std::lock_guard lock(mutex_);
  failing_opens_[path] = {count, std::move(why)};
}

void MemoryStorage::FailWriters(const std::string& path) {
  const std::lock_guard lock(mutex_);
  for (auto& [directory, disk] : disks_) {
    const std::lock_guard disk_lock(disk->mutex);
    if (disk->has_writer && IsAtOrBelow(directory, path)) {
      disk->LoseUnflushed();
      disk->has_failed = true;
      ++disk->losses;
    }
  }
}

void MemoryStorage::LoseMachine(const std::string& path) {
  const std::lock_guard lock(mutex_);
  for (auto& [directory, disk] : disks_) {
    if (IsAtOrBelow(directory, path)) {
      const std::lock_guard disk_lock(disk->mutex);
      PS_CHECK(!disk->has_writer) << directory;
      disk->live = disk->synced;
      disk->logged = disk->synced;
      disk->not_synced.clear();
    }
  }
}

bool MemoryStorage::FlipBit(const std::string& directory, Random* random) {
  const std::lock_guard lock(mutex_);
  const auto disk = disks_.find(directory);
  if (disk == disks_.end()) {
    return false;
  }
  const std::lock_guard disk_lock(disk->second->mutex);
  std::map<Column, std::vector<Value>> values;  // a column is as likely as another
  for (const auto& [key, value] : disk->second->synced) {
    if (!value->empty()) {
      values[key.first].push_back(value);
    }
  }
  if (values.empty()) {
    return false;
  }
  const auto& column =
      std::next(values.begin(), static_cast<int64_t>(random->Below(values.size())))->second;
  std::vector<std::byte>& bytes = *column[random->Below(column.size())];
  const uint64_t bit = random->Below(bytes.size() * 8);
  bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  return true;
}

std::vector<std::byte>* MemoryStorage::ValueOf(
    const std::string& directory, Column column, const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto disk = disks_.find(directory);
  if (disk == disks_.end()) {
    return nullptr;
  }
  const std::lock_guard disk_lock(disk->second->mutex);
  const auto value = disk->second->live.find({column, key});
  return value == disk->second->live.end() ? nullptr : value->second.get();
}

}  // namespace ps::checkpoint
