#pragma once

#include <cstdint>

#include "ps/base/status.h"
#include "ps/proto/job/task.h"
#include "worker/data/load_progress.h"
#include "worker/data/npy/npy_parts.h"

namespace ps::worker {

inline constexpr int64_t kNpyClassesMax = int64_t{1} << 20;

/// Elements [begin, end) of an array.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

inline ElementRange AllOf(const NpyFile& file) {
  return {0, file.rows() * file.row_size()};
}

/// What values have to be: finite numbers, tokens below the vocabulary, labels below the classes or
/// as the task learns them. Errors: kCorruption with file and byte.
struct NpyRules {
  proto::Task task = proto::Task::kClasses;
  uint32_t vocabulary = 0;
  int64_t classes = 0;

  Status CheckInputs(const NpyFile& file, const ElementRange& range) const;
  Status CheckLabels(const NpyFile& file, const ElementRange& range) const;
};

/// Goes over all inputs of a set, or all its labels. Errors: those of the rules; kCancelled.
Status CheckAllInputs(const NpyParts& set, const NpyRules& rules, LoadProgress* progress);
Status CheckAllLabels(const NpyParts& set, const NpyRules& rules, LoadProgress* progress);

/// One more than the largest label in training; of tokens that are learnt, the vocabulary.
/// `labels`: how many a sample has. Errors: kInvalidArgument, kCorruption.
Result<int64_t> CountClasses(const NpyParts& train, uint32_t vocabulary, int64_t labels);

}  // namespace ps::worker
