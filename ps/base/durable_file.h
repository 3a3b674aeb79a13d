#pragma once

#include <string>

#include "ps/base/status.h"

namespace ps {

// Names that are there when the machine comes back. fsync of a file keeps what is in it; its name
// is kept by fsync of the directory that it is in, and that of a new directory by fsync of the one
// above. Whoever gives a file its name by renaming, or makes a path, does so here.

/// Files that were created, renamed or removed in the directory before stay so. Errors: kIo.
Status SyncDirectory(const std::string& path);

/// Creates what is missing of a path. Errors: kIo.
Status CreateDirectories(const std::string& path);

/// Whether a file may take the place of what is there: nothing, or a regular file. Errors:
/// kInvalidArgument.
Status CheckReplaceable(const std::string& path);

/// Gives a file its name, in place of the file that had it. Requires: what is in it is synced; both
/// names are in one directory. Errors: kIo, and those of
/// CheckReplaceable; the draft may be there still.
Status MoveIntoPlace(const std::string& draft, const std::string& path);

}  // namespace ps
