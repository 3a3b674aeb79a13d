#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ps::provisioner {

/// For a row of slots, each of which takes `low` to `high` things of one value: the least sum of
/// values from a slot on, for every number of things. With `spare` the things beyond those that
/// have to be there, the sum is convex and made of straight pieces, one per slot at most.
class FillTable {
 public:
  struct Slot {
    double value = 0;
    int low = 0;
    int high = 0;
    int pool = -1;  // that its things beyond `low` come from; -1: none
  };

  /// From `begin` spare things on, up to the next piece.
  struct Piece {
    int begin = 0;
    double sum = 0;
    double slope = 0;
  };

  /// `pools`: how many things each holds. False, with nothing built: no `total` things add up to
  /// more than `limit`.
  bool Build(std::span<const Slot> slots, std::span<const int> pools, int total, double limit);

  /// The piece that holds `spare` things, from `depth` on. Requires: room for as many.
  const Piece* Find(size_t depth, int spare) const;

  /// The same for fewer things, from the piece of more.
  static const Piece* Back(const Piece* piece, int spare) {
    while (piece->begin > spare) {
      --piece;
    }
    return piece;
  }

  static double Sum(const Piece* piece, int spare) {
    return piece->sum + (spare - piece->begin) * piece->slope;
  }

  /// What the last of them adds; 0 for none.
  static double Last(const Piece* piece, int spare) {
    return spare > piece->begin ? piece->slope : (spare > 0 ? (piece - 1)->slope : 0);
  }

 private:
  double MostOf(std::span<const Slot> slots, int total) const;

  std::vector<Piece> pieces_;
  std::vector<size_t> begins_;  // per depth, and the end
  std::vector<size_t> order_;
  std::vector<int> pools_left_;  // scratch
};

}  // namespace ps::provisioner
