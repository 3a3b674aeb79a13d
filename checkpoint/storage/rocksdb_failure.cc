#include "checkpoint/storage/rocksdb_failure.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/storage/failure.h"

namespace ps::checkpoint {
namespace {

using Code = rocksdb::Status::Code;

enum class Meaning : uint8_t { kDamage, kFileMissing, kPassing, kFull, kLocked, kNewer, kAbsent };

/// What RocksDB says, and what it means.
struct Saying {
  Code code;
  std::string_view text;  // somewhere in it
  Meaning meaning;
};

// The first that fits. RocksDB calls a database that it can't open corrupt, whatever the reason is,
// which is left as text alone. A version that it does not know may be a wrong bit as well, but who
// deletes nothing for it is right in both cases.
constexpr std::array kSayings = {
    Saying{Code::kNotFound, "", Meaning::kAbsent},
    Saying{Code::kCorruption, "No such file or directory", Meaning::kFileMissing},
    Saying{Code::kCorruption, "IO error", Meaning::kPassing},
    Saying{Code::kCorruption, "unsupported format_version", Meaning::kNewer},  // of a table
    Saying{Code::kCorruption, "unsupported checksum type", Meaning::kNewer},   // likewise
    Saying{Code::kCorruption, "Unknown header version", Meaning::kNewer},      // of large values
    Saying{Code::kCorruption, "unknown tag", Meaning::kNewer},  // in the list of tables
    Saying{Code::kCorruption, "", Meaning::kDamage},
    Saying{Code::kNotSupported, "", Meaning::kNewer},
    Saying{Code::kInvalidArgument, "Column families not opened", Meaning::kNewer},
    Saying{Code::kIOError, "lock hold by current process", Meaning::kLocked},
    Saying{Code::kIOError, "While lock file", Meaning::kLocked},
    Saying{Code::kIOError, "No such file or directory", Meaning::kFileMissing},
    Saying{Code::kIOError, "No space left on device", Meaning::kFull},
};

Meaning MeaningOf(const rocksdb::Status& status, std::string_view text) {
  const auto* const fits = std::ranges::find_if(kSayings, [&](const Saying& saying) {
    return saying.code == status.code() && text.find(saying.text) != std::string_view::npos;
  });
  return fits == kSayings.end() ? Meaning::kPassing : fits->meaning;
}

}  // namespace

Status ToStatus(const rocksdb::Status& status) {
  if (status.ok()) {
    return Status::Ok();
  }
  const std::string text = status.ToString();
  switch (MeaningOf(status, text)) {
    case Meaning::kDamage:
      return Status::Corruption(text);
    case Meaning::kFileMissing:
      return FileMissing(status.IsCorruption() ? StatusCode::kCorruption : StatusCode::kIo, text);
    case Meaning::kNewer:
      return Status::Unsupported(text);
    case Meaning::kFull:
      return Status::Io(fmt::format("the disk is full: {}", text));
    case Meaning::kLocked:
      return Status::Unavailable(text);
    case Meaning::kAbsent:
      return Status::NotFound("not in the database");
    case Meaning::kPassing:
      break;
  }
  return Status::Io(text);
}

bool IsLockFailure(const rocksdb::Status& status) {
  return MeaningOf(status, status.ToString()) == Meaning::kLocked;
}

bool IsLockedHere(const rocksdb::Status& status) {
  return status.ToString().find("current process") != std::string::npos;
}

}  // namespace ps::checkpoint
