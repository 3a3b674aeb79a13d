#include "worker/compute_thread.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/threads.h"
#include "ps/base/time.h"

namespace ps::worker {

namespace {

/// A step is begun earlier than its usual duration asks for by this factor, for the slower ones.
constexpr double kStepMargin = 1.2;

}  // namespace

ComputeThread::ComputeThread(net::Loop* loop, Callbacks callbacks)
    : loop_(loop), callbacks_(std::move(callbacks)), thread_([this] { Run(); }) {}

ComputeThread::~ComputeThread() {
  Stop();
}

void ComputeThread::SetTrainer(std::unique_ptr<Trainer> trainer, const Pace& pace) {
  const std::lock_guard lock(mutex_);
  PS_CHECK(!task_) << "a new trainer while a task is under way";
  trainer_ = std::move(trainer);
  pace_ = pace;
}

void ComputeThread::Start(const client::ComputeTask& task) {
  const std::lock_guard lock(mutex_);
  PS_CHECK(trainer_ != nullptr && !task_) << "a task without a trainer, or a second one";
  task_ = task;
  changed_.notify_one();
}

void ComputeThread::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ComputeThread::Run() {
  while (true) {
    client::ComputeTask task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return task_.has_value() || is_stopping_; });
      if (is_stopping_) {
        return;
      }
      task = *task_;
      kernels::SetComputeThreads(pace_.threads);
    }
    RunTask(task);
  }
}

bool ComputeThread::WaitFor(Duration duration) {
  std::unique_lock lock(mutex_);
  if (duration <= Duration::zero()) {
    return !is_stopping_;  // the kernel would put the thread to sleep all the same
  }
  return !changed_.wait_for(lock, duration, [this] { return is_stopping_; });
}

void ComputeThread::RunTask(const client::ComputeTask& task) {
  const TimePoint begin = SystemTime().Now();
  const bool is_step = task.kind == proto::LeaseKind::kTrain;
  // The wait comes first, by the last tasks' durations, so that pushes during backward are late
  // too.
  Duration wait = FromSeconds(task_seconds_ * (pace_.slowdown - 1));
  if (is_step && task_seconds_ > 0) {
    const Duration usual = FromSeconds(task_seconds_ * pace_.slowdown * kStepMargin);
    wait = std::max(wait, pace_.step_least - usual);
  }
  if (!WaitFor(wait)) {
    return;
  }
  const TimePoint work_begin = SystemTime().Now();
  Result<client::ComputeResult> result = client::ComputeResult{};
  if (task.kind == proto::LeaseKind::kEvaluate) {
    result = trainer_->Evaluate(task.parameters, task.begin, task.end);
  } else {
    result = trainer_->Step(task, [this, session = task.session](uint32_t tensor) {
      loop_->Post([this, session, tensor] { callbacks_.on_tensor_ready(session, tensor); })
          .Ignore("the push begins when the step is done instead");
    });
    const double seconds = Seconds(SystemTime().Now() - work_begin);
    task_seconds_ = task_seconds_ == 0 ? seconds : 0.8 * task_seconds_ + 0.2 * seconds;
  }
  // What the first wait left out, so that a step lasts exactly as long as it has to.
  if (is_step && !WaitFor(pace_.step_least - (SystemTime().Now() - begin))) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    task_.reset();
    if (is_stopping_) {
      return;
    }
  }
  std::function<void()> tell;
  if (result.ok()) {
    result->seconds = Seconds(SystemTime().Now() - begin);
    tell = [this, task, answer = *result] { callbacks_.on_done(task, answer); };
  } else {
    tell = [this, why = result.status()] { callbacks_.on_failure(why); };
  }
  const Status posted = loop_->Post(std::move(tell));
  PS_CHECK(posted.ok()) << posted;
}

}  // namespace ps::worker
