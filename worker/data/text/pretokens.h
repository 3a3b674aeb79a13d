#pragma once

#include <cstddef>
#include <string_view>

namespace ps::worker {

/// A longer run of one class is cut, so that a file without spaces takes no more memory.
inline constexpr size_t kPretokenBytesMax = size_t{1} << 16;

/// Bytes of the first piece of a text as GPT-2 cuts it. No token crosses from a piece to the next.
/// The pieces are what this pattern finds, whose classes are those of Unicode:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// Requires: `text` is not empty, and is UTF-8.
size_t PretokenBytes(std::string_view text);

}  // namespace ps::worker
