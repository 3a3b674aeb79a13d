#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/task.h"
#include "worker/data/npy/npy_file.h"
#include "worker/model/model.h"

namespace ps::worker {

/// What a number of an inputs file is.
enum class InputKind : uint8_t {
  kBytes,   // uint8: divided by 255
  kFloats,  // float32: as it is
  kTokens,  // other whole numbers
};

/// A part: inputs, and labels unless the next token is what is learnt.
struct NpyPart {
  NpyFile inputs;
  std::optional<NpyFile> labels;
  uint64_t first = 0;  // number of its first sample
};

/// The parts of training, test or validation data, in the order of their names. At least one.
struct NpyParts {
  std::vector<NpyPart> parts;
  uint64_t count = 0;

  const NpyPart& PartOf(uint64_t sample) const;

  void Expect(MappedFile::Pattern pattern) const;

  uint64_t input_bytes() const;
  uint64_t label_bytes() const;
};

struct NpyData {
  NpyParts train;
  NpyParts test;
  NpyParts validation;  // no parts where none is asked for
};

/// Opens train-inputs*.npy, train-labels*.npy, test-inputs*.npy and test-labels*.npy of a folder,
/// and those that begin with `validation`, if it is not empty: headers alone are read. Every part
/// is as the first one of the training data. Errors: as NpyFile::Open; kNotFound, kInvalidArgument
/// and kCorruption that say which file is at fault.
Result<NpyData> OpenNpyParts(
    const std::string& directory, proto::Task task, const std::string& validation);

InputKind KindOf(const NpyFile& inputs);

/// A sample as it enters the model. Errors: kCorruption.
Result<Shape> ShapeOf(const NpyPart& part, uint32_t vocabulary);

}  // namespace ps::worker
