#pragma once

#include <string>
#include <string_view>

#include "ps/base/status.h"

namespace ps {

// Small files, read and written whole.

/// Whole contents. Errors: kNotFound, kIo, kInvalidArgument (more than `bytes_max` bytes); all name
/// the path.
Result<std::string> ReadFile(const std::string& path, size_t bytes_max = 16U << 20);

/// ReadFile without newlines at the end: for secrets and notices.
Result<std::string> ReadSmallFile(const std::string& path, size_t bytes_max);

/// Replaces the file in one step: a reader sees the old text or the new, never a part. The new one
/// survives the machine.
/// `mode` is that of the new file, whatever the umask. Errors: kIo with the path.
Status WriteFileAtomically(const std::string& path, std::string_view text, unsigned mode = 0644);

/// Writes all of `text` to an open file. Errors: kIo with `path`.
Status WriteAll(int fd, std::string_view text, const std::string& path);

/// Whether there is something at the path. Errors: kIo with the path where the system can't say,
/// as below a mount that is dead.
Result<bool> IsThere(const std::string& path);

/// kIo with what errno says: "cannot read PATH: Permission denied".
Status IoError(const std::string& what, const std::string& path);

}  // namespace ps
