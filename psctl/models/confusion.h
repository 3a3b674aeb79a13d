#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/json/json_writer.h"

namespace ps::psctl {

/// How many samples of each class a model takes for each class.
class ConfusionMatrix {
 public:
  static constexpr size_t kClassesMax = 4096;

  /// `names`: of the classes, by number. Requires: 1 to kClassesMax of them.
  explicit ConfusionMatrix(std::vector<std::string> names);

  /// A sample of class `label` that is taken for `guess`. Requires: both are classes.
  void Add(size_t label, size_t guess);

  uint64_t At(size_t label, size_t guess) const { return counts_[label * names_.size() + guess]; }

  /// Tables for people: of up to 16 classes the counts; of each class, with many the worst twenty,
  /// which share of its samples is found and which share of what is taken for it is right; and what
  /// is mistaken most often.
  std::string Render() const;

  /// Fields "classes" and "confusion", a row for each label.
  void AddTo(JsonWriter* json) const;

  /// As SVG for light and dark pages: a row for each label, its colours by the row's shares.
  std::string Draw(const std::string& title) const;

 private:
  struct ClassRow {
    size_t number;
    uint64_t samples;
    uint64_t found;
    uint64_t taken;  // for it, rightly or not
  };

  std::vector<ClassRow> Rows() const;
  std::string RenderCounts() const;
  std::string RenderClasses() const;
  std::string RenderMistakes() const;

  const std::vector<std::string> names_;  // printable
  std::vector<uint64_t> counts_;
};

}  // namespace ps::psctl
