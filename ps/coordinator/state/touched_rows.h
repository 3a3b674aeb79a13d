#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "ps/proto/state/job_rows.h"

namespace ps::coordinator {

using proto::RowId;
using proto::RowKind;

/// Rows to be written in one step.
struct RowChanges {
  struct Change {
    RowId id;
    std::optional<std::vector<std::byte>> value;  // nothing: the row is gone
  };

  bool is_all = false;  // these are all rows that there are
  std::vector<Change> changes;
};

/// Rows of the job's state that an event may have changed. Every table marks what it changes of its
/// part of the state; what is there once (RowKindInfo::is_once) is looked at after every event.
class TouchedRows {
 public:
  /// Marks are kept from now on: somebody takes them after every event.
  void TurnOn() { is_on_ = true; }

  void Mark(RowKind kind, uint64_t number = 0) {
    if (is_on_) {
      rows_.push_back({kind, number});
    }
  }

  /// Each once, in order.
  std::vector<RowId> Take() {
    std::vector<RowId> rows = std::exchange(rows_, {});
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
  }

 private:
  bool is_on_ = false;
  std::vector<RowId> rows_;
};

}  // namespace ps::coordinator
