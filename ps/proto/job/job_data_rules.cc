#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "ps/base/text.h"
#include "ps/json/json_reader.h"
#include "ps/proto/job/data_parts.h"
#include "ps/proto/job/job_rules.h"
#include "ps/proto/job/task.h"

namespace ps::proto {
namespace {

/// The columns that data.labels names.
Status LabelColumns(const JobInFile& job) {
  const DataConfig& data = job.config.data;
  if (data.labels.empty()) {
    return Status::Ok();
  }
  if (TaskOf(job.config.model) == Task::kClasses) {
    return job.Error(
        "data.labels",
        "data.labels is for numbers and labels of which a sample has several; allowed: data.label "
        "for classes, or a loss at the end of model.layers: mse, mae, huber or bce");
  }
  if (!data.label.empty()) {
    return job.Error("data.labels", "data.labels stands beside data.label; allowed: one of them");
  }
  for (size_t i = 0; i < data.labels.size(); ++i) {
    const std::string at = fmt::format("data.labels[{}]", i);
    if (data.labels[i].empty()) {
      return job.Error(at, at + " is empty; allowed: a column's name, or its number from 0");
    }
    if (std::find(
            data.labels.begin(), data.labels.begin() + static_cast<int64_t>(i), data.labels[i]) !=
        data.labels.begin() + static_cast<int64_t>(i)) {
      return job.Error(at, at + " names a column again; allowed: each once");
    }
  }
  return Status::Ok();
}

/// The part that epochs are measured on.
Status Validation(const JobInFile& job) {
  const DataConfig& data = job.config.data;
  const std::string_view name = data.validation;
  if (name.empty()) {
    return Status::Ok();
  }
  const std::string path = "data.validation";
  const std::string is = path + " is " + Quoted(Clip(name, 100));
  if (data.validation_share > 0) {
    return job.Error(
        path,
        path +
            " stands beside data.validation_share; allowed: one of them, a part of its own or a "
            "share of the training samples");
  }
  if (!HasNamedParts(data.format)) {
    return job.Error(
        path,
        fmt::format(
            "{}, and data of format {} have no such part; allowed: data.validation_share, which "
            "keeps a share of the training samples for it",
            is,
            config::kDatasetFormatNames[static_cast<size_t>(data.format)]));
  }
  // Files of tables and arrays are found by how their names begin.
  for (const std::string_view other : {"train", "test"}) {
    if (name.starts_with(other) || other.starts_with(name)) {
      return job.Error(
          path,
          fmt::format(
              "{0}; allowed: a name that neither begins with {1} nor is how it begins, as val or "
              "dev",
              is,
              other));
    }
  }
  return IsPartName(name)
             ? Status::Ok()
             : job.Error(
                   path,
                   is + "; allowed: the name of a part beside train and test, as val or dev, of up "
                        "to 64 letters, digits, '_', '-' and '.', not a point first");
}

Status Pictures(const JobInFile& job) {
  const uint32_t channels = job.config.data.picture.channels;
  return channels != 2
             ? Status::Ok()
             : job.Error(
                   "data.picture.channels",
                   "data.picture.channels is 2; allowed: 1 (grey), 3 (red, green and blue)");
}

}  // namespace

bool IsPartName(std::string_view name) {
  constexpr size_t kPartBytesMax = 64;
  constexpr std::string_view kPartLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= kPartBytesMax && !name.starts_with('.') &&
         name.find_first_not_of(kPartLetters) == std::string_view::npos;
}

bool HasNamedParts(DatasetFormat format) {
  return format != DatasetFormat::kIdx && format != DatasetFormat::kCifar10 &&
         format != DatasetFormat::kCifar100;
}

Status CheckData(const JobInFile& job) {
  PS_TRY(LabelColumns(job));
  PS_TRY(Pictures(job));
  return Validation(job);
}

}  // namespace ps::proto
