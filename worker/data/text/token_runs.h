#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "worker/data/shared_array.h"

namespace ps::worker {

/// A token and the file that has it.
struct TokenPlace {
  std::string file;
  uint64_t byte = 0;
};

/// Tokens of several files, one behind the other, in memory or where they lie on the disk.
template <typename Token>
class TokenRuns {
 public:
  /// `file`: which has nothing but the tokens, from byte `file_begin` on.
  void Append(SharedArray<Token> tokens, std::string file = {}, uint64_t file_begin = 0) {
    const uint64_t first = size_;
    size_ += tokens.size();
    if (tokens.size() > 0) {
      runs_.push_back({first, std::move(tokens), std::move(file), file_begin});
    }
  }

  uint64_t size() const { return size_; }

  /// Writes the tokens from `begin` on. Requires: they are there.
  template <typename Out>
  void Copy(uint64_t begin, std::span<Out> out) const {
    auto run = RunOf(begin);
    while (!out.empty()) {
      const std::span<const Token> rest = run->tokens.values().subspan(begin - run->first);
      const size_t count = std::min(rest.size(), out.size());
      std::ranges::copy(rest.first(count), out.begin());
      out = out.subspan(count);
      begin += count;
      ++run;
    }
  }

  /// Writes the bytes from `begin` on. Requires: whole tokens.
  void CopyBytes(uint64_t begin, std::span<std::byte> out) const {
    auto run = RunOf(begin / sizeof(Token));
    while (!out.empty()) {
      const auto bytes = std::as_bytes(run->tokens.values());
      const auto rest = bytes.subspan(begin - run->first * sizeof(Token));
      const size_t count = std::min(rest.size(), out.size());
      std::ranges::copy(rest.first(count), out.begin());
      out = out.subspan(count);
      begin += count;
      ++run;
    }
  }

  TokenPlace PlaceOf(uint64_t token) const {
    const auto run = RunOf(token);
    return {run->file, run->file_begin + (token - run->first) * sizeof(Token)};
  }

 private:
  struct Run {
    uint64_t first;  // number of its first token
    SharedArray<Token> tokens;
    std::string file;
    uint64_t file_begin;
  };

  typename std::vector<Run>::const_iterator RunOf(uint64_t token) const {
    return std::ranges::upper_bound(runs_, token, {}, &Run::first) - 1;
  }

  std::vector<Run> runs_;  // none is empty
  uint64_t size_ = 0;
};

}  // namespace ps::worker
