#pragma once

#include <csignal>

namespace ps::worker {

/// What SIGTERM does to a program whose worker's loop takes it as a notice: from Keep to Restore
/// the loop has it, and before and afterwards the program. A child of fork has the program's from
/// its beginning, since the loop's handler would tell the parent there.
/// Thread: any. Several workers of a process may use it.
class TerminateSignal {
 public:
  /// Before the loop handles it.
  static void Keep();
  /// Once it does: another handler that the program sets later stays.
  static void NoteHandler();
  /// When the loop has ended. Requires: Keep was called.
  static void Restore();

  /// While it lives a worker is taken down, whose library sets the default; then the program has
  /// its own again, unless another worker's loop has it.
  class Programs {
   public:
    Programs();
    ~Programs();
    Programs(const Programs&) = delete;
    Programs& operator=(const Programs&) = delete;

   private:
    struct sigaction action_ = {};
  };
};

}  // namespace ps::worker
