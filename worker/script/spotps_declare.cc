// What a program declares before its first spotps_next.

#include <fmt/core.h>
#include <unistd.h>

#include <span>
#include <string>
#include <utility>

#include "ps/base/text.h"
#include "ps/proto/limits.h"
#include "worker/script/declarations.h"
#include "worker/script/spotps.h"
#include "worker/script/worker_handle.h"

using ps::Status;
using ps::worker::Fail;
using ps::worker::IsOwn;

namespace ps::worker {

std::string& ErrorOfNone() {
  thread_local std::string error;
  return error;
}

int32_t Fail(const spotps_worker* worker, std::string why) {
  (worker == nullptr ? ErrorOfNone() : worker->error) = std::move(why);
  return SPOTPS_ERROR;
}

bool IsOwn(const spotps_worker* worker) {
  if (worker == nullptr) {
    Fail(worker, "the worker is null: it was closed, or was never opened");
    return false;
  }
  if (worker->pid == ::getpid()) {
    return true;
  }
  worker->error = fmt::format(
      "this process was forked from process {}, whose worker it is; use it there alone, and make "
      "data loader's processes before it if they need one of their own",
      worker->pid);
  return false;
}

}  // namespace ps::worker

namespace {

int32_t FailAt(const spotps_worker* worker, const char* tensor, const char* why) {
  return Fail(worker, fmt::format("tensor {}: {}", ps::Printable(tensor), why));
}

/// Whether the worker may declare more; says why not.
bool MayDeclare(const spotps_worker* worker, const char* name) {
  if (!IsOwn(worker)) {
    return false;
  }
  if (worker->worker != nullptr) {
    FailAt(worker, name, "the worker takes part already; declare all tensors before spotps_next");
    return false;
  }
  return true;
}

/// Negative dimensions are too many.
std::span<const int64_t> ShapeOf(const int64_t* shape, int32_t dimensions) {
  constexpr size_t kTooMany = ps::proto::kTensorDimsMax + 1;
  return {shape, dimensions < 0 ? kTooMany : static_cast<size_t>(dimensions)};
}

int32_t Answer(const spotps_worker* worker, const Status& status) {
  return status.ok() ? SPOTPS_OK : Fail(worker, std::string(status.message()));
}

}  // namespace

extern "C" {

int32_t spotps_declare(
    spotps_worker* worker,
    const char* name,
    const int64_t* shape,
    int32_t dimensions,
    int32_t rule,
    float rate,
    int32_t decays,
    const float* values) {
  if (!MayDeclare(worker, name)) {
    return SPOTPS_ERROR;
  }
  if (rule != SPOTPS_GRADIENT && rule != SPOTPS_AVERAGE) {
    return FailAt(worker, name, "unknown rule; allowed: SPOTPS_GRADIENT, SPOTPS_AVERAGE");
  }
  return Answer(
      worker,
      worker->declared.AddTrained(
          name,
          ShapeOf(shape, dimensions),
          static_cast<ps::UpdateRule>(rule),
          rate,
          decays != 0,
          values));
}

int32_t spotps_frozen(
    spotps_worker* worker,
    const char* name,
    const int64_t* shape,
    int32_t dimensions,
    const float* values) {
  return MayDeclare(worker, name)
             ? Answer(worker, worker->declared.AddFrozen(name, ShapeOf(shape, dimensions), values))
             : SPOTPS_ERROR;
}

int32_t spotps_kept(
    spotps_worker* worker,
    const char* name,
    int32_t type,
    const int64_t* shape,
    int32_t dimensions,
    int32_t is_counter,
    int32_t is_compared,
    const void* values) {
  return MayDeclare(worker, name) ? Answer(
                                        worker,
                                        worker->declared.AddKept(
                                            name,
                                            type,
                                            ShapeOf(shape, dimensions),
                                            is_counter != 0,
                                            is_compared != 0,
                                            values))
                                  : SPOTPS_ERROR;
}

int32_t spotps_alias(spotps_worker* worker, const char* name, const char* of) {
  return MayDeclare(worker, name) ? Answer(worker, worker->declared.AddAlias(name, of))
                                  : SPOTPS_ERROR;
}

int32_t spotps_samples(spotps_worker* worker, uint64_t train, uint64_t test) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  worker->declared.description.train_samples = train;
  worker->declared.description.test_samples = test;
  return SPOTPS_OK;
}

int32_t spotps_optimizer(spotps_worker* worker, const char* json) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  worker->declared.description.optimizer_json = json;
  return SPOTPS_OK;
}

int32_t spotps_local_steps(spotps_worker* worker, uint32_t steps) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  worker->declared.description.local_steps = steps;
  return SPOTPS_OK;
}

int32_t spotps_minibatch(spotps_worker* worker, uint32_t samples) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  worker->declared.description.minibatch = samples;
  return SPOTPS_OK;
}

int32_t spotps_device(spotps_worker* worker, const char* name) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  worker->options.device = std::string(name).substr(0, ps::proto::kDeviceBytesMax);
  return SPOTPS_OK;
}

}  // extern "C"
