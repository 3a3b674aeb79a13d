#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "ps/base/status.h"

namespace ps::coordinator {

/// Where the job's initial values come from.
class ModelSource {
 public:
  virtual ~ModelSource() = default;

  /// Elements [begin, begin + out.size()) of a tensor of the job. Errors: kIo, kCorruption
  /// (damaged, or a value is NaN or infinite).
  virtual Status Read(uint32_t tensor, int64_t begin, std::span<float> out) = 0;
};

/// Where the model goes when training is over. A file appears with Finish or not at all.
class ModelSink {
 public:
  virtual ~ModelSink() = default;

  /// A new file; what an earlier Begin began is dropped. `metadata` is text for people. Errors:
  /// kIo.
  virtual Status Begin(std::map<std::string, std::string> metadata) = 0;

  /// Elements [begin, begin + values.size()) of a tensor of the job, each once, in any order.
  /// Errors: kIo, kCorruption (a value is NaN or infinite).
  virtual Status Write(uint32_t tensor, int64_t begin, std::span<const float> values) = 0;

  /// All is written: begins to make the file durable, which may take a while.
  virtual void Finish() = 0;

  /// How that has ended; nothing while it goes on. Asked once it has been told to Finish.
  virtual std::optional<Status> Outcome() = 0;

  /// Drops what was begun.
  virtual void Abandon() = 0;

  virtual std::string path() const = 0;
};

}  // namespace ps::coordinator
