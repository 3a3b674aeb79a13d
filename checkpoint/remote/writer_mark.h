#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/store/object_store.h"

namespace ps::checkpoint {

/// The object "writer": it names the process that changes the place now. There is none while
/// nobody does.
///
/// The rule for everything that changes a place: take the mark first, then list, then change. Look
/// at the mark again before each index is written or deleted and before each piece is deleted, and
/// stop when it is not one's own any more. What another process may have decided from an older list
/// is found by listing once more after an index was written (Uploader::Run).
class WriterMark {
 public:
  /// `name` tells this process from all others (MakeWriterName). `store` outlives it.
  WriterMark(store::ObjectStore* store, std::string name);

  const std::string& name() const { return name_; }

  /// Takes the place over from whoever has it; that one stops at its next look.
  Status Take();

  /// kUnavailable when another process has taken the place over, or has done so and left it.
  Status Check() const;

  /// Nobody changes the place any more. Without effect when another process has it.
  void Leave();

  /// It was taken and could not be left since.
  bool is_taken() const { return is_taken_; }

 private:
  store::ObjectStore* const store_;
  const std::string name_;
  bool is_taken_ = false;
};

/// Who changes the place now, or was killed while it did; nothing when nobody does. A mark of a
/// version that left its name for good counts as nobody's.
Result<std::optional<std::string>> ReadWriter(store::ObjectStore& store);

}  // namespace ps::checkpoint
