// Streams, events and graphs of CUDA's runtime.

#include <utility>

#include "tests/cuda_emulation/machine.h"

using ps::cuda_emulation::current_device;
using ps::cuda_emulation::Fail;
using ps::cuda_emulation::FailInCapture;
using ps::cuda_emulation::IssueKind;
using ps::cuda_emulation::Marks;
using ps::cuda_emulation::NoteIssue;
using ps::cuda_emulation::Report;
using ps::cuda_emulation::Sticky;
using ps::cuda_emulation::TheMachine;
using ps::cuda_emulation::Turn;
using ps::cuda_emulation::Work;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Turn turn;
  const int device = current_device;
  if (flags != cudaStreamNonBlocking) {
    return Fail(device, "a stream that waits for the default stream");
  }
  *stream = new CUstream_st{device};
  TheMachine().streams.insert(*stream);
  return Sticky(device);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Turn turn;
  const int device = stream->device;
  stream->RunAll();
  TheMachine().streams.erase(stream);
  delete stream;
  return Sticky(device);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Turn turn;
  if (const cudaError_t error = FailInCapture("a stream was waited for"); error != cudaSuccess) {
    return error;
  }
  if (!stream->work.empty()) {
    NoteIssue({IssueKind::kHostWait, stream});
  }
  stream->RunAll();
  return Sticky(stream->device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const Turn turn;
  if (const cudaError_t error = FailInCapture("an event was waited for"); error != cudaSuccess) {
    return error;
  }
  stream->work.push_back({nullptr, event->marks, event->marks->recorded});
  return Sticky(stream->device);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Turn turn;
  *event = new CUevent_st{current_device, (flags & cudaEventDisableTiming) == 0};
  return Sticky((*event)->device);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Turn turn;
  const int device = event->device;
  delete event;
  return Sticky(device);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Turn turn;
  if (event->device != stream->device) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (const cudaError_t error = FailInCapture("an event was recorded"); error != cudaSuccess) {
    return error;
  }
  Marks* marks = event->marks.get();
  while (marks->stream != stream && marks->passed < marks->recorded) {
    marks->stream->RunOne();  // one event, one stream at a time
  }
  const uint64_t count = ++marks->recorded;
  marks->stream = stream;
  Work mark;
  mark.is_mark = true;
  mark.run = [kept = event->marks, count, device = stream->device] {
    kept->passed = count;
    kept->passed_ms = TheMachine().on(device).clock_ms;
    return std::string();
  };
  stream->work.push_back(std::move(mark));
  return Sticky(stream->device);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Turn turn;
  const Marks& marks = *event->marks;
  if (marks.passed == marks.recorded) {
    return Sticky(event->device);
  }
  marks.stream->RunOne();  // who asks often enough gets there
  return cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Turn turn;
  if (const cudaError_t error = FailInCapture("an event was waited for"); error != cudaSuccess) {
    return error;
  }
  const Marks& marks = *event->marks;
  if (marks.passed < marks.recorded) {
    NoteIssue({IssueKind::kHostWait, marks.stream});
  }
  while (marks.passed < marks.recorded) {
    marks.stream->RunOne();
  }
  return Sticky(event->device);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Turn turn;
  for (const cudaEvent_t event : {start, end}) {
    if (!event->has_time || event->marks->recorded == 0) {
      return Report(cudaErrorInvalidResourceHandle);
    }
    if (event->marks->passed < event->marks->recorded) {
      return cudaErrorNotReady;
    }
  }
  *milliseconds = static_cast<float>(end->marks->passed_ms - start->marks->passed_ms);
  return Sticky(end->device);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const Turn turn;
  if (stream == nullptr || TheMachine().capturing) {
    return Report(cudaErrorStreamCaptureUnsupported);
  }
  stream->capture = std::make_unique<CUgraph_st>();
  TheMachine().capturing = std::this_thread::get_id();
  return Sticky(current_device);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Turn turn;
  if (stream->capture == nullptr) {
    return Report(cudaErrorStreamCaptureUnsupported);
  }
  const std::unique_ptr<CUgraph_st> captured = std::exchange(stream->capture, nullptr);
  TheMachine().capturing.reset();
  const cudaError_t error = Sticky(stream->device);
  *graph = error == cudaSuccess ? new CUgraph_st(*captured) : nullptr;
  return error;
}

cudaError_t cudaGraphInstantiate(
    cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long /*flags*/) {
  const Turn turn;
  *executable = new CUgraphExec_st{graph->work};
  return Sticky(current_device);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Turn turn;
  delete graph;
  return Sticky(current_device);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Turn turn;
  delete executable;
  return Sticky(current_device);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Turn turn;
  ++TheMachine().graph_launches;
  NoteIssue({IssueKind::kGraph, stream});
  for (const std::function<std::string()>& run : executable->work) {
    stream->Put(run);
  }
  return Sticky(current_device);
}
