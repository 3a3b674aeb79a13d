#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ps::worker {

/// Samples of a minibatch, [begin, end).
struct PieceRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Who computes which samples of a minibatch, and how many at a time.
struct Division {
  int64_t n = 0;
  int64_t share = 0;  // of each device, in a row; the last one may have fewer
  int64_t piece = 0;
  bool has_pairs = false;  // no piece has one sample

  /// Devices get equal shares, and none when there are too few samples. `piece_max` of 0: a share
  /// at once. Of at least 2 samples in pieces of at least 3 `has_pairs` can be had.
  static Division Of(int64_t n, size_t device_count, int64_t piece_max, bool has_pairs = false) {
    const auto count = static_cast<int64_t>(device_count);
    Division division{.n = n, .share = (n + count - 1) / count, .has_pairs = has_pairs};
    while (has_pairs && division.share < n && (division.share == 1 || n % division.share == 1)) {
      ++division.share;
    }
    division.piece = piece_max > 0 ? std::min(piece_max, division.share) : division.share;
    return division;
  }

  size_t devices() const { return static_cast<size_t>((n + share - 1) / share); }

  bool adds_pieces() const { return piece < share; }

  /// The pieces of a device, at most.
  size_t pieces() const { return static_cast<size_t>((share + piece - 1) / piece); }

  PieceRange ShareOf(size_t device) const {
    const int64_t begin = static_cast<int64_t>(device) * share;
    return {begin, std::min(begin + share, n)};
  }

  /// The piece that begins so far into a device's share, a multiple of `piece`; may be empty. Where
  /// one sample is left over for the last piece, it gets another one of the piece before.
  PieceRange RangeOf(size_t device, int64_t offset) const {
    const PieceRange own = ShareOf(device);
    const int64_t begin = std::min(own.begin + offset, own.end);
    const int64_t end = std::min(begin + piece, own.end);
    const int64_t left = own.end - begin;
    if (!has_pairs || own.end - own.begin == 1 || (left != 1 && left != piece + 1)) {
      return {begin, end};
    }
    return left == 1 ? PieceRange{begin - 1, end} : PieceRange{begin, end - 1};
  }

  /// A device's last piece, which may be shorter than the others.
  PieceRange LastOf(size_t device) const {
    const PieceRange own = ShareOf(device);
    return RangeOf(device, (own.end - own.begin - 1) / piece * piece);
  }
};

}  // namespace ps::worker
