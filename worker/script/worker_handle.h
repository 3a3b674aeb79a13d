#pragma once

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

#include "ps/base/logger.h"
#include "worker/script/declarations.h"
#include "worker/script/script_worker.h"
#include "worker/script/spotps.h"

/// What a program holds. Thread: that of the calls.
struct spotps_worker {
  pid_t pid = ::getpid();
  mutable std::string error;

  // Until the first spotps_next.
  ps::worker::Declarations declared;
  std::string describe_path;  // empty: it works
  ps::worker::ScriptWorker::Options options;
  std::optional<int64_t> run_start_us;

  // From then on.
  std::unique_ptr<ps::LogSink> sink;
  std::unique_ptr<ps::Logger> log;
  std::unique_ptr<ps::worker::ScriptWorker> worker;
  uint32_t tensor_count = 0;
  bool has_task = false;
  bool has_ended = false;
  ps::worker::ScriptWorker::Seat seat;  // of the last task
};

namespace ps::worker {

/// What spotps_error(NULL) says: of this thread's last spotps_open, or call with a null worker.
std::string& ErrorOfNone();

/// SPOTPS_ERROR, and why.
int32_t Fail(const spotps_worker* worker, std::string why);

/// Whether the caller may use the worker; says why not.
bool IsOwn(const spotps_worker* worker);

}  // namespace ps::worker
