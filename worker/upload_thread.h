#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "ps/client/host_tensors.h"
#include "ps/client/pull_intake.h"
#include "worker/trainer.h"

namespace ps::worker {

/// The thread that brings pulled values to a device: from their frames to their place in the host's
/// pinned memory, and on their way up. A task sees what was put before it began, and nothing that
/// was put later; when it says so, or has ended, the thread goes on with what has come meanwhile.
class UploadThread {
 public:
  UploadThread() : thread_([this] { Run(); }) {}

  UploadThread(const UploadThread&) = delete;
  UploadThread& operator=(const UploadThread&) = delete;

  ~UploadThread() { Stop(); }

  // Thread: the worker's loop, as that of Stop.

  /// `tensors` and `trainer` live until Settle.
  void Put(client::PullIntake::Fresh fresh, client::HostTensors* tensors, Trainer* trainer);
  /// What is put from here on waits for LetOn or EndTask. Requires: the task before has ended.
  void BeginTask();
  /// Waits until all that was put is on its way. Requires: no task is under way, or it lets values
  /// on.
  void AwaitAll();
  /// Ends all waits, and the thread.
  void Stop();

  // Thread: the task's.

  /// Waits until what was put before the task is on its way. False when stopped.
  bool AwaitTaskValues();
  /// The task has taken these: later values do not disturb it.
  void LetOn();
  void EndTask();

 private:
  struct Entry {
    client::PullIntake::Fresh fresh;
    client::HostTensors* tensors = nullptr;
    Trainer* trainer = nullptr;
  };

  void Run();
  void Take(const Entry& entry);
  bool IsLeaving(int64_t begin, int64_t end) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Entry> queue_;
  bool is_held_ = false;
  size_t admitted_ = 0;  // of the queue's first entries, while it is held: the task's
  bool is_busy_ = false;
  bool is_stopping_ = false;

  // The thread's: places in the tensors that an upload may still read, by their first element.
  std::map<int64_t, int64_t> leaving_;

  std::thread thread_;
};

}  // namespace ps::worker
