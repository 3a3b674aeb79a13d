#pragma once

#include <string>

#include "ps/base/status.h"

namespace ps::checkpoint {

// What a failure of a database says about the files below it. Storage engines choose code and text
// by this table; the two questions at the end are asked here and nowhere else.
//
//   what the engine met                      status                   proved corrupt  unusable
//   a checksum that does not fit, bytes      kCorruption              yes             yes
//   that make no sense
//   a file of the database is not there      FileMissing              no              yes
//   written by a newer program or engine     kUnsupported             no              yes
//   files can't be opened or read now: EIO,  kIo                      no              no
//   too many open ones, ESTALE, full disk
//   another writer has it                    kUnavailable             no              no
//   there is no database, no such key        kNotFound                no              no

/// The failure that a file of a database is not there; `text` says which. kCorruption where the
/// database can't be opened without it, kIo where a reader missed it: the writer beside it may have
/// written the value anew in another file, and who opens the database again finds it.
Status FileMissing(StatusCode code, const std::string& text);

/// Whether the failure proves that what was read is damaged for good. A file that is missing may be
/// put back, and another build may know the format. Nothing of a checkpoint may be deleted for any
/// other failure.
bool IsProvedCorrupt(const Status& status);

/// Whether a database that can't be opened stays so until somebody mends it, rather than being out
/// of reach for a while: whoever has another one uses that.
bool IsUnusable(const Status& status);

}  // namespace ps::checkpoint
