#include "worker/data/store/fetch_journal.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "ps/base/file.h"

namespace ps::worker {
namespace {

/// Some 50 bytes for each range: room for all objects that there may be.
constexpr size_t kJournalBytesMax = size_t{1} << 30;

/// The four numbers of a line, and nothing else.
std::optional<FetchedRange> ParseRange(std::string_view line) {
  std::array<uint64_t, 4> numbers{};
  const char* at = line.data();
  const char* const end = line.data() + line.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ' ')) {
      return std::nullopt;
    }
    const auto read = std::from_chars(at, end, numbers[i]);
    if (read.ec != std::errc()) {
      return std::nullopt;
    }
    at = read.ptr;
  }
  if (at != end || numbers[3] > UINT32_MAX) {
    return std::nullopt;
  }
  return FetchedRange{
      .object = numbers[0],
      .offset = numbers[1],
      .bytes = numbers[2],
      .crc = static_cast<uint32_t>(numbers[3])};
}

Status RemoveAllIn(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code failed;
    std::filesystem::remove_all(at->path(), failed);
    error = failed ? failed : error;
  }
  return error ? Status::Io(fmt::format("cannot empty {}: {}", folder, error.message()))
               : Status::Ok();
}

}  // namespace

std::vector<FetchedRange> ParseFetchJournal(std::string_view lines) {
  std::vector<FetchedRange> ranges;
  for (size_t end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n')) {
    if (const std::optional<FetchedRange> range = ParseRange(lines.substr(0, end))) {
      ranges.push_back(*range);
    }
    lines.remove_prefix(end + 1);
  }
  return ranges;
}

std::string JournalLine(const FetchedRange& range) {
  return fmt::format("{} {} {} {}\n", range.object, range.offset, range.bytes, range.crc);
}

Result<std::unique_ptr<FetchJournal>> FetchJournal::Open(
    const std::string& folder, const std::string& state) {
  const std::string path = folder + "/journal";
  const std::string head = state + "\n";
  const Result<std::string> text = ReadFile(path, kJournalBytesMax);
  const bool is_same = text.ok() && text->starts_with(head);
  if (!is_same) {
    PS_TRY(RemoveAllIn(folder));
    PS_TRY(WriteFileAtomically(path, head));
  }
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!fd.is_open()) {
    return IoError("cannot write", path);
  }
  std::unique_ptr<FetchJournal> journal(new FetchJournal(path, std::move(fd)));
  if (is_same) {
    journal->Take(ParseFetchJournal(std::string_view(*text).substr(head.size())));
    // A line that was cut off ends here, so that the next one is one.
    if (!text->ends_with('\n')) {
      PS_TRY(WriteAll(journal->fd_.get(), "\n", path));
    }
  }
  return journal;
}

void FetchJournal::Take(const std::vector<FetchedRange>& ranges) {
  for (const FetchedRange& range : ranges) {
    const bool is_new = done_.insert_or_assign(std::pair(range.object, range.offset), range).second;
    bytes_done_ += is_new ? range.bytes : 0;
  }
}

std::optional<FetchedRange> FetchJournal::Find(size_t object, uint64_t offset, size_t bytes) const {
  const auto it = done_.find(std::pair(object, offset));
  return it == done_.end() || it->second.bytes != bytes ? std::nullopt : std::optional(it->second);
}

Status FetchJournal::Add(const FetchedRange& range) {
  const std::string line = JournalLine(range);
  const std::lock_guard lock(mutex_);
  return WriteAll(fd_.get(), line, path_);
}

Status FetchJournal::Remove() {
  return ::unlink(path_.c_str()) == 0 ? Status::Ok() : IoError("cannot remove", path_);
}

}  // namespace ps::worker
