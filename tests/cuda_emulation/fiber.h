#pragma once

#include <functional>
#include <memory>

namespace ps::cuda_emulation {

/// A thread of a block: a stack of its own on the thread that runs the block. The address sanitizer
/// is told of every change of stacks.
class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// The next Resume begins body() on an empty stack; what was on it is forgotten, not unwound.
  /// `body` outlives the run.
  void Start(const std::function<void()>* body);

  /// Runs the body until its next Pause, or its end. Called outside of fibers.
  /// Returns false when the body has come to its end.
  bool Resume();

  /// Goes back to the caller of Resume. Called inside a body.
  static void Pause();

 private:
  struct Context;

  static void Run();

  const std::unique_ptr<Context> context_;
};

}  // namespace ps::cuda_emulation
