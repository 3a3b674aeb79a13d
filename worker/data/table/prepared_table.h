#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/task.h"
#include "worker/data/load_progress.h"
#include "worker/data/shared_array.h"

namespace ps::worker {

/// Rows of tables as numbers.
struct PreparedRows {
  SharedArray<float> values;     // [rows, features]
  SharedArray<uint32_t> labels;  // [rows, labels]: classes, or the bits of numbers that are learnt
};

struct PreparedTable {
  uint64_t features = 0;
  uint64_t labels = 1;  // of a row
  int64_t classes = 0;  // where numbers are learnt: as many as labels
  std::vector<std::string> class_names;
  PreparedRows train;
  PreparedRows test;
  PreparedRows validation;            // of data.validation; empty without it
  std::vector<std::string> left_out;  // see DataListing
  std::string note;                   // why they are in memory and not in the cache; or empty

  uint64_t train_count() const { return train.values.size() / features; }

  uint64_t test_count() const { return test.values.size() / features; }

  uint64_t validation_count() const { return validation.values.size() / features; }
};

/// Reads the tables of config.directory, or what the cache has of them. Errors: kNotFound,
/// kCancelled; those of AppendTable, of TableClasses.
Result<PreparedTable> PrepareTable(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress);

}  // namespace ps::worker
