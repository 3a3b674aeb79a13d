#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/table/table_file.h"

namespace ps::worker {

/// The class of each label. Those of training say what there is. If all are whole numbers from 0
/// they are the classes; if all are whole, classes are in the order of the numbers; else in that of
/// the names.
class TableClasses {
 public:
  /// Errors: kCorruption: they are numbers to learn, too few or too many.
  static Result<TableClasses> Of(const TableRows& train);

  int64_t count() const { return static_cast<int64_t>(count_); }

  /// By number; empty: a class is called as its number.
  std::vector<std::string> Names() const;

  /// Puts classes in the place of names. Errors: kCorruption, one that training has not.
  Status Number(TableRows* rows) const;

 private:
  std::optional<uint32_t> Find(const std::string& name) const;

  // Ascending; both empty: classes are their numbers.
  std::vector<std::string> names_;
  std::vector<double> numbers_;
  double count_ = 0;
};

}  // namespace ps::worker
