#include "worker/script/spotps.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/model/safetensors_header.h"
#include "ps/base/text.h"
#include "ps/net/program.h"
#include "ps/proto/limits.h"
#include "worker/data/order.h"
#include "worker/script/declarations.h"
#include "worker/script/description.h"
#include "worker/script/script_start.h"
#include "worker/script/script_worker.h"
#include "worker/script/terminate_signal.h"
#include "worker/script/worker_handle.h"
#include "worker/shell/worker_flags.h"

using ps::Status;
using ps::worker::ErrorOfNone;
using ps::worker::Fail;
using ps::worker::IsOwn;
using ps::worker::ScriptWorker;

namespace {

static_assert(SPOTPS_BOOL == static_cast<int>(ps::checkpoint::ElementType::kBool));
static_assert(SPOTPS_BOOL + 1 == ps::checkpoint::kElementTypes);

bool HasTask(const spotps_worker* worker, bool is_train) {
  if (!IsOwn(worker)) {
    return false;
  }
  const bool has = worker->has_task &&
                   (!is_train || worker->worker->task().kind == ps::proto::LeaseKind::kTrain);
  if (!has) {
    worker->error = "there is no such task in hand; take one with spotps_next first";
  }
  return has;
}

/// Whether there is such a tensor, too.
bool HasTensor(const spotps_worker* worker, bool is_train, uint32_t tensor) {
  if (!HasTask(worker, is_train)) {
    return false;
  }
  if (tensor >= worker->tensor_count) {
    worker->error = fmt::format("tensor {} of {}", tensor, worker->tensor_count);
    return false;
  }
  return true;
}

/// The flags that ps_worker was started with.
Status ReadEnvironment(const char* json, spotps_worker* worker) {
  PS_ASSIGN(
      std::vector<std::string> words, ps::worker::ParseWords(json, ps::worker::kWorkerVariable));
  // Beneath a wrapper with processes of its own, or of another user, the open file is there all the
  // same, if the wrapper has kept it.
  constexpr std::string_view kToken = "--token-file=/proc/";
  for (std::string& word : words) {
    if (word.starts_with(kToken) && ::access(word.c_str() + word.find('/'), R_OK) != 0) {
      word = std::string(kToken) + "self/fd/" + word.substr(word.rfind('/') + 1);
    }
  }
  std::vector<const char*> arguments = {"ps_worker"};
  for (const std::string& word : words) {
    arguments.push_back(word.c_str());
  }
  PS_ASSIGN(
      const ps::net::ProgramFlags read,
      ps::net::ReadProgramFlags(
          static_cast<int>(arguments.size()), arguments.data(), ps::worker::WorkerText()));
  PS_ASSIGN(ps::worker::WorkerFlags flags, ps::worker::ReadWorkerFlags(read.flags, read.run));
  static_cast<ps::worker::WorkerShell::Options&>(worker->options) = std::move(flags.shell);
  worker->options.program = "spotps";
  // Ctrl-C is the program's own: an exception in its loop, after which it leaves.
  worker->options.notice_signals = {SIGTERM};
  worker->run_start_us = read.run.run_start_us;
  PS_ASSIGN(worker->sink, ps::net::LogSinkOf(read.flags));
  return Status::Ok();
}

Status Open(int32_t abi, std::unique_ptr<spotps_worker>* out) {
  const char* const describe = std::getenv(ps::worker::kDescribeVariable);
  const char* const job = std::getenv(ps::worker::kWorkerVariable);
  if (abi < SPOTPS_ABI_LEAST || abi > SPOTPS_ABI) {
    return Status::Unsupported(fmt::format(
        "the program was made for version {} of libspotps, and this one takes {} to {}; install "
        "both from the same release",
        abi,
        SPOTPS_ABI_LEAST,
        SPOTPS_ABI));
  }
  if (describe == nullptr && job == nullptr) {
    return Status::Ok();
  }
  auto worker = std::make_unique<spotps_worker>();
  if (describe != nullptr) {
    worker->describe_path = describe;
  } else {
    PS_TRY(ReadEnvironment(job, worker.get()));
  }
  *out = std::move(worker);
  return Status::Ok();
}

void Begin(spotps_worker* worker) {
  const ps::proto::JoinRequest& join = worker->options.join;
  worker->log = std::make_unique<ps::Logger>(
      join.has_seat ? fmt::format("w{}", join.seat.value) : "worker",
      &ps::SystemTime(),
      worker->sink.get(),
      worker->run_start_us);
  worker->options.on_named = [log = worker->log.get()](const std::string& name) {
    log->Rename(name);
  };
  worker->tensor_count = static_cast<uint32_t>(worker->declared.description.tensors.size());
  worker->declared.description.frozen_crc =
      ps::worker::FrozenSum(worker->declared.description, worker->declared.values);
  worker->declared.values = {};
  worker->worker = std::make_unique<ScriptWorker>(
      worker->options, std::move(worker->declared.description), worker->log.get());
  worker->worker->Start();
}

int32_t Describe(spotps_worker* worker) {
  const Status written = ps::worker::WriteDescription(
      worker->describe_path, worker->declared.description, worker->declared.values);
  return written.ok() ? SPOTPS_DESCRIBED : Fail(worker, std::string(written.message()));
}

int32_t End(spotps_worker* worker) {
  worker->has_ended = true;
  const Status outcome = worker->worker->outcome();
  worker->error = outcome.ok() ? "" : std::string(outcome.message());
  return outcome.ok() || outcome.code() == ps::StatusCode::kRevoked ? SPOTPS_END : SPOTPS_ERROR;
}

}  // namespace

extern "C" {

int32_t spotps_abi(void) {
  return SPOTPS_ABI;
}

int32_t spotps_open(int32_t abi, spotps_worker** worker) {
  std::unique_ptr<spotps_worker> made;
  const Status opened = Open(abi, &made);
  *worker = made.release();
  ErrorOfNone() = opened.ok() ? "" : std::string(opened.message());
  return !opened.ok() ? SPOTPS_ERROR : *worker == nullptr ? SPOTPS_NO_JOB : SPOTPS_OK;
}

const char* spotps_error(const spotps_worker* worker) {
  return worker == nullptr ? ErrorOfNone().c_str() : worker->error.c_str();
}

int32_t spotps_next(spotps_worker* worker, int32_t timeout_ms, spotps_task* task) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  if (worker->has_task) {
    return Fail(worker, "a task is in hand; spotps_finish it first");
  }
  if (worker->declared.description.tensors.empty() && worker->worker == nullptr) {
    return Fail(worker, "no tensor is declared; spotps_declare what is trained");
  }
  if (!worker->describe_path.empty()) {
    return Describe(worker);
  }
  if (worker->worker == nullptr) {
    Begin(worker);
  }
  switch (worker->worker->Next(std::chrono::milliseconds(timeout_ms))) {
    case ScriptWorker::Wait::kNothingYet:
      return SPOTPS_WAIT;
    case ScriptWorker::Wait::kOver:
      return End(worker);
    case ScriptWorker::Wait::kTask:
      break;
  }
  worker->has_task = true;
  const ps::client::ComputeTask& given = worker->worker->task();
  *task = {
      static_cast<int32_t>(given.kind),
      given.epoch,
      given.step,
      given.begin,
      given.end,
      given.minibatch,
      given.local_steps,
      given.samples_done,
      given.is_local ? 1 : 0};
  return SPOTPS_TASK;
}

const float* spotps_values(const spotps_worker* worker, uint32_t tensor) {
  return HasTensor(worker, false, tensor) ? worker->worker->Values(tensor).data() : nullptr;
}

float* spotps_gradient(spotps_worker* worker, uint32_t tensor) {
  return HasTensor(worker, true, tensor) ? worker->worker->Gradient(tensor).data() : nullptr;
}

int32_t spotps_ready(spotps_worker* worker, uint32_t tensor) {
  if (!HasTensor(worker, true, tensor)) {
    return SPOTPS_ERROR;
  }
  worker->worker->TensorReady(tensor);
  return SPOTPS_OK;
}

int32_t spotps_local_step(spotps_worker* worker, uint64_t samples) {
  if (!HasTask(worker, true)) {
    return SPOTPS_ERROR;
  }
  return worker->worker->LocalStep(samples) ? SPOTPS_END : SPOTPS_OK;
}

int32_t spotps_finish(spotps_worker* worker, double loss_sum, uint64_t correct, uint64_t samples) {
  if (!HasTask(worker, false)) {
    return SPOTPS_ERROR;
  }
  worker->has_task = false;
  ps::client::ComputeResult result;
  result.loss_sum = loss_sum;
  result.correct = correct;
  result.samples = samples;
  worker->worker->Finish(result);
  return SPOTPS_OK;
}

int32_t spotps_order(
    const spotps_worker* worker, uint32_t epoch, uint64_t begin, uint64_t end, uint64_t* out) {
  if (!HasTask(worker, false)) {
    return SPOTPS_ERROR;
  }
  const ScriptWorker::Seat seat = worker->worker->seat();
  const uint64_t count = seat.train_samples;
  if (begin > end || end > count) {
    return Fail(worker, fmt::format("places {} to {} of {} training samples", begin, end, count));
  }
  const ps::worker::EpochOrder order(seat.order_seed, epoch, count);
  for (uint64_t place = begin; place < end; ++place) {
    *out++ = order.SampleAt(place);
  }
  return SPOTPS_OK;
}

const char* spotps_job(spotps_worker* worker) {
  if (!IsOwn(worker) || worker->worker == nullptr) {
    return nullptr;
  }
  worker->seat = worker->worker->seat();
  return worker->seat.config_json.c_str();
}

const char* spotps_job_device(spotps_worker* worker) {
  return spotps_job(worker) == nullptr ? nullptr : worker->seat.device.c_str();
}

int32_t spotps_seat(spotps_worker* worker, uint32_t* seat, uint32_t* threads) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  if (spotps_job(worker) == nullptr) {
    return Fail(worker, "the worker has no seat yet; it gets one before its first task");
  }
  *seat = worker->seat.worker;
  *threads = worker->seat.threads;
  return SPOTPS_OK;
}

int32_t spotps_figure(spotps_worker* worker, const char* name, double value) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  const std::string text = name;
  if (text.empty() || text.size() > ps::proto::kFigureNameBytesMax) {
    return Fail(worker, "a figure's name is empty or too long; allowed: 1 to 64 bytes");
  }
  if (worker->worker != nullptr && std::isfinite(value) && !worker->worker->Tell(text, value)) {
    return Fail(
        worker,
        fmt::format("figure {} is one too many; allowed: {} names", text, ps::proto::kFiguresMax));
  }
  return SPOTPS_OK;
}

int32_t spotps_log(spotps_worker* worker, const char* event, const char* text) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  if (worker->log != nullptr) {
    worker->log->Info(event, {{"text", text}});
  }
  return SPOTPS_OK;
}

int32_t spotps_notice(const spotps_worker* worker) {
  const bool has_begun = worker != nullptr && worker->worker != nullptr;
  return has_begun && worker->worker->is_leaving() ? 1 : 0;
}

int32_t spotps_leave(spotps_worker* worker, const char* why, int32_t timeout_ms) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  worker->has_task = false;
  if (worker->worker != nullptr && !worker->has_ended) {
    worker->worker->Leave(why, std::chrono::milliseconds(timeout_ms));
  }
  return SPOTPS_OK;
}

int32_t spotps_fail(spotps_worker* worker, const char* why, int32_t timeout_ms) {
  if (!IsOwn(worker)) {
    return SPOTPS_ERROR;
  }
  worker->has_task = false;
  if (worker->worker != nullptr && !worker->has_ended) {
    const auto text = std::string(why).substr(0, ps::proto::kTextBytesMax);
    worker->worker->Fail(text, std::chrono::milliseconds(timeout_ms));
  }
  return SPOTPS_OK;
}

void spotps_close(spotps_worker* worker) {
  if (worker != nullptr && IsOwn(worker)) {
    const ps::worker::TerminateSignal::Programs kept;
    delete worker;  // NOLINT(cppcoreguidelines-owning-memory): spotps_open gave it away
  }
}

}  // extern "C"
