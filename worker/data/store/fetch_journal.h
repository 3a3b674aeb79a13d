#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/unique_fd.h"

namespace ps::worker {

/// A part of an object that has come.
struct FetchedRange {
  size_t object = 0;  // its number in the list
  uint64_t offset = 0;
  size_t bytes = 0;
  uint32_t crc = 0;  // CRC-32C of what came

  friend bool operator==(const FetchedRange&, const FetchedRange&) = default;
};

/// The ranges of a journal's whole lines, in their order; other lines are passed over. Takes any
/// bytes.
std::vector<FetchedRange> ParseFetchJournal(std::string_view lines);

/// As a line of a journal.
std::string JournalLine(const FetchedRange& range);

/// Which ranges of a fetch are in its files, as a text file that only grows:
///   <state>\n
///   <object> <offset> <bytes> <crc>\n     for each range, behind its bytes
/// A line that is cut off counts for nothing. The bytes of others are to be compared with their
/// checksums, since a machine that fails may lose them and not the line.
/// Thread: any.
class FetchJournal {
 public:
  /// That of a folder, with what an earlier fetch of the same state has left there. What it has of
  /// another is removed, with all that the folder has. Errors: kIo.
  static Result<std::unique_ptr<FetchJournal>> Open(
      const std::string& folder, const std::string& state);

  /// As it was when this process opened it.
  std::optional<FetchedRange> Find(size_t object, uint64_t offset, size_t bytes) const;

  uint64_t bytes_done() const { return bytes_done_; }

  /// Errors: kIo.
  Status Add(const FetchedRange& range);

  /// Ends it. Errors: kIo.
  Status Remove();

 private:
  FetchJournal(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  void Take(const std::vector<FetchedRange>& ranges);

  const std::string path_;
  std::map<std::pair<size_t, uint64_t>, FetchedRange> done_;  // by object and offset
  uint64_t bytes_done_ = 0;
  std::mutex mutex_;
  UniqueFd fd_;  // guarded by mutex_
};

}  // namespace ps::worker
