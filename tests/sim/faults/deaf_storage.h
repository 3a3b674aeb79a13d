#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/storage/storage.h"

namespace ps::sim {

/// A storage whose databases say that they have never lost anything (Sabotage::kMissedLoss).
class DeafStorage final : public checkpoint::Storage {
 public:
  /// `storage` outlives it.
  explicit DeafStorage(checkpoint::Storage* storage) : storage_(storage) {}

  Result<std::unique_ptr<checkpoint::Database>> Open(
      const std::string& directory,
      std::span<const std::string_view> columns,
      checkpoint::OpenMode mode) override {
    PS_ASSIGN(auto database, storage_->Open(directory, columns, mode));
    return std::unique_ptr<checkpoint::Database>(
        std::make_unique<DeafDatabase>(std::move(database)));
  }

  Result<std::unique_ptr<checkpoint::Mark>> OpenMark(const std::string& directory) override {
    return storage_->OpenMark(directory);
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    return storage_->List(path);
  }

  Status Remove(const std::string& directory) override { return storage_->Remove(directory); }

 private:
  class DeafDatabase final : public checkpoint::Database {
   public:
    explicit DeafDatabase(std::unique_ptr<checkpoint::Database> database)
        : database_(std::move(database)) {}

    Status Write(
        std::span<const checkpoint::Change> changes, checkpoint::Durability durability) override {
      return database_->Write(changes, durability);
    }

    Status Flush() override { return database_->Flush(); }

    Status Read(
        checkpoint::Column column,
        std::string_view key,
        checkpoint::ReadCheck check,
        const Visitor& visit) override {
      return database_->Read(column, key, check, visit);
    }

    Status Scan(checkpoint::Column column, std::string_view prefix, const Visitor& visit) override {
      return database_->Scan(column, prefix, visit);
    }

    Status Prune(checkpoint::Column column, KeepFunction keep) override {
      return database_->Prune(column, std::move(keep));
    }

    uint64_t losses() const override { return 0; }

    void LimitWrites(uint64_t bytes_per_s) override { database_->LimitWrites(bytes_per_s); }

   private:
    const std::unique_ptr<checkpoint::Database> database_;
  };

  checkpoint::Storage* const storage_;
};

}  // namespace ps::sim
