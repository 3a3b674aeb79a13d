#include "worker/compute_thread.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/threads.h"
#include "ps/base/time.h"

namespace ps::worker {

ComputeThread::ComputeThread(net::Loop* loop, Callbacks callbacks)
    : loop_(loop), callbacks_(std::move(callbacks)), thread_([this] { Run(); }) {}

ComputeThread::~ComputeThread() {
  Stop();
}

void ComputeThread::SetTrainer(std::unique_ptr<Trainer> trainer) {
  const std::lock_guard lock(mutex_);
  PS_CHECK(!task_) << "a new trainer while a task is under way";
  trainer_ = std::move(trainer);
}

void ComputeThread::SetDevice(int threads, const std::optional<emulation::Device>& emulated) {
  const std::lock_guard lock(mutex_);
  PS_CHECK(!task_) << "a new device while a task is under way";
  threads_ = threads;
  emulated_ = emulated;
}

void ComputeThread::SetEncodings(
    const client::ChunkLayout& layout, size_t frame_bytes, bool has_feedback) {
  const std::lock_guard lock(mutex_);
  PS_CHECK(trainer_ != nullptr && !task_) << "encodings without a trainer, or during a task";
  layout_ = layout;
  frame_bytes_ = frame_bytes;
  has_feedback_ = has_feedback;
  finished_ = Status::Ok();
  device_encodes_ =
      trainer_->has_copies() && trainer_->BeginEncodings(layout, frame_bytes, has_feedback).ok();
  encoder_.reset();
  if (!device_encodes_) {
    encoder_.emplace(layout, frame_bytes, has_feedback);
  }
}

void ComputeThread::EncodeNothing() {
  const std::lock_guard lock(mutex_);
  PS_CHECK(!task_) << "no encodings any more while a task is under way";
  encoder_.reset();
  device_encodes_ = false;
}

void ComputeThread::ChangeEncodings(const client::ChunkLayout& layout, bool has_feedback) {
  const std::lock_guard lock(mutex_);
  PS_CHECK(!task_ && (encoder_ || device_encodes_))
      << "other encodings while a task is under way, or where nothing is encoded";
  layout_ = layout;
  has_feedback_ = has_feedback;
  if (encoder_) {
    encoder_->Change(layout, has_feedback);
  } else if (!trainer_->SetEncodings(layout, frame_bytes_, has_feedback).ok()) {
    EncodeHere();
  }
}

void ComputeThread::EncodeHere() {
  trainer_->StopEncodings();
  device_encodes_ = false;
  encoder_.emplace(layout_, frame_bytes_, has_feedback_);
}

void ComputeThread::Upload(client::PullIntake::Fresh fresh, client::HostTensors* tensors) {
  uploads_.Put(std::move(fresh), tensors, trainer_.get());  // set by this thread alone
}

void ComputeThread::Settle() {
  uploads_.AwaitAll();
  const std::lock_guard lock(mutex_);
  if (trainer_ != nullptr) {
    trainer_->Settle();
  }
}

void ComputeThread::Start(const client::ComputeTask& task, const TaskTensors& tensors) {
  const std::lock_guard lock(mutex_);
  PS_CHECK(trainer_ != nullptr && !task_) << "a task without a trainer, or a second one";
  uploads_.BeginTask();
  task_ = task;
  tensors_ = tensors;
  changed_.notify_all();
}

void ComputeThread::Foresee(const client::SamplesAhead& next) {
  trainer_->Foresee(next);  // set by this thread alone
}

void ComputeThread::EndEarly(ps::Step step) {
  trainer_->EndEarly(step);  // set by this thread alone
}

void ComputeThread::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  uploads_.Stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ComputeThread::Run() {
  while (true) {
    client::ComputeTask task;
    TaskTensors tensors;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return task_.has_value() || is_stopping_; });
      if (is_stopping_) {
        return;
      }
      task = *task_;
      tensors = tensors_;
      kernels::SetComputeThreads(threads_);
    }
    if (!uploads_.AwaitTaskValues()) {
      return;
    }
    RunTask(task, tensors);
  }
}

bool ComputeThread::WaitFor(Duration duration) {
  std::unique_lock lock(mutex_);
  if (duration <= Duration::zero()) {
    return !is_stopping_;  // the kernel would put the thread to sleep all the same
  }
  return !changed_.wait_for(lock, duration, [this] { return is_stopping_; });
}

bool ComputeThread::BeginMinibatch() {
  minibatch_begin_ = SystemTime().Now();
  const bool goes_on = !emulated_ || WaitFor(emulated_->WaitBefore(true));
  arithmetic_begin_ = SystemTime().Now();
  return goes_on;
}

bool ComputeThread::EndMinibatch() {
  if (!emulated_) {
    return true;
  }
  const TimePoint now = SystemTime().Now();
  emulated_->OnStep(now - arithmetic_begin_);
  return WaitFor(emulated_->WaitAfter(now - minibatch_begin_));
}

void ComputeThread::Encode(
    const client::ComputeTask& task, uint32_t tensor, const TaskTensors& tensors) {
  // Where this thread encodes, the device may have kept something before.
  Status finished = trainer_->FinishEncoded(tensor, handed_over_ == task.step, tensors.loan);
  if (finished_.ok()) {
    finished_ = std::move(finished);
  }
  if (!encoder_) {
    return;
  }
  if (handed_over_ == task.step || encoder_->EndsFeedback(tensor)) {
    encoder_->HandOver(tensor, tensors.loan);
  } else {
    encoder_->Encode(tensor, tensors.gradient);
  }
}

Result<client::ComputeResult> ComputeThread::Step(
    const client::ComputeTask& task, const TaskTensors& tensors) {
  Trainer::StepWatch watch;
  watch.on_begin = [this] { return BeginMinibatch(); };
  watch.on_end = [this, &task](uint64_t samples) {
    if (task.is_local) {
      loop_
          ->Post([this, session = task.session, samples] {
            callbacks_.on_local_step(session, static_cast<uint32_t>(samples));
          })
          .Ignore("the next one, or the end of the step, tells of it");
    }
    return EndMinibatch();
  };
  watch.on_ready = [this, &tensors, &task](uint32_t tensor) {
    if (is_encoding()) {
      Encode(task, tensor, tensors);
    }
    if (!finished_.ok()) {
      return;  // the step fails, and what the tensor has now is not to travel
    }
    loop_
        ->Post(
            [this, session = task.session, tensor] { callbacks_.on_tensor_ready(session, tensor); })
        .Ignore("the push begins when the step is done instead");
  };
  watch.on_taken = [this] { uploads_.LetOn(); };
  Result<client::ComputeResult> result = trainer_->Step(task, tensors, watch);
  if (result.ok() && task.is_local && is_encoding()) {  // no tensor was ready before
    for (uint32_t tensor = 0; tensor < trainer_->TensorElements().size(); ++tensor) {
      Encode(task, tensor, tensors);
    }
  }
  if (result.ok() && encoder_) {
    result->held_back = encoder_->TakeHeldBack();
  } else if (result.ok() && device_encodes_) {
    PS_ASSIGN(result->held_back, trainer_->TakeHeldBack());
    if (trainer_->has_given_up_encoding()) {
      EncodeHere();
    }
  }
  PS_TRY(std::exchange(finished_, {}));
  return result;
}

void ComputeThread::RunTask(const client::ComputeTask& task, const TaskTensors& tensors) {
  const TimePoint begin = SystemTime().Now();
  Result<client::ComputeResult> result = client::ComputeResult{};
  if (task.kind == proto::LeaseKind::kTrain) {
    result = Step(task, tensors);
  } else if (!emulated_ || WaitFor(emulated_->WaitBefore(false))) {
    result = trainer_->Evaluate(tensors.parameters, task.begin, task.end);
  }
  const std::string note = trainer_->TakeNote();
  uploads_.EndTask();
  {
    const std::lock_guard lock(mutex_);
    task_.reset();
    if (is_stopping_) {
      return;
    }
  }
  if (!note.empty()) {
    loop_->Post([this, note] { callbacks_.on_note(note); }).Ignore("it is for people alone");
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
