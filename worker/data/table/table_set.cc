#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "worker/data/data_sum.h"
#include "worker/data/samples.h"
#include "worker/data/table/prepared_table.h"
#include "worker/data/validation.h"

namespace ps::worker {
namespace {

class TableSamples final : public Samples {
 public:
  explicit TableSamples(PreparedRows rows) : rows_(std::move(rows)) {}

  Status Read(
      uint64_t sample,
      uint64_t /*draw*/,
      std::span<float> input,
      std::span<uint32_t> labels) const override {
    const auto values = rows_.values.values().subspan(sample * input.size(), input.size());
    const auto own = rows_.labels.values().subspan(sample * labels.size(), labels.size());
    std::ranges::copy(values, input.begin());
    std::ranges::copy(own, labels.begin());
    return Status::Ok();
  }

 private:
  const PreparedRows rows_;
};

template <typename T>
uint32_t SumOfFirst(const SharedArray<T>& values, uint64_t count) {
  return DataSum(std::as_bytes(values.values().first(static_cast<size_t>(count))));
}

/// The means of the first rows, added up in their order: the same on every machine.
std::vector<double> MeansOf(const SharedArray<uint32_t>& targets, uint64_t rows, size_t columns) {
  std::vector<double> means(columns);
  for (size_t i = 0; i < rows * columns; ++i) {
    means[i % columns] +=
        static_cast<double>(std::bit_cast<float>(targets.values()[i])) / static_cast<double>(rows);
  }
  return means;
}

}  // namespace

Result<LoadedData> LoadTable(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress) {
  PS_ASSIGN(PreparedTable table, PrepareTable(config, task, progress));
  LoadedData loaded;
  loaded.note = std::move(table.note);
  loaded.info.left_out = std::move(table.left_out);
  loaded.info.class_names = std::move(table.class_names);
  loaded.info.classes = table.classes;
  loaded.info.labels = static_cast<int64_t>(table.labels);
  loaded.info.shape = {static_cast<int64_t>(table.features), 1, 1};
  PS_TRY(ApplyLimits(config, table.train_count(), table.test_count(), &loaded.info));
  const uint64_t validation_count = table.validation_count();
  loaded.info.validation_count = validation_count;
  const uint64_t train_count = loaded.info.train_count;
  const uint64_t test_count = loaded.info.test_count;
  if (task != proto::Task::kClasses) {
    loaded.target_means = MeansOf(table.train.labels, train_count, table.labels);
  }
  loaded.fingerprint = FingerprintOf(loaded.info);
  loaded.fingerprint.train_images_crc =
      SumOfFirst(table.train.values, train_count * table.features);
  loaded.fingerprint.train_labels_crc = SumOfFirst(table.train.labels, train_count * table.labels);
  loaded.fingerprint.test_images_crc = SumOfFirst(table.test.values, test_count * table.features);
  loaded.fingerprint.test_labels_crc = SumOfFirst(table.test.labels, test_count * table.labels);
  if (validation_count > 0) {
    AddValidation(
        validation_count,
        SumOfFirst(table.validation.values, validation_count * table.features),
        SumOfFirst(table.validation.labels, validation_count * table.labels),
        &loaded.fingerprint);
    loaded.validation = std::make_unique<TableSamples>(std::move(table.validation));
  }
  loaded.train = std::make_unique<TableSamples>(std::move(table.train));
  loaded.test = std::make_unique<TableSamples>(std::move(table.test));
  return loaded;
}

}  // namespace ps::worker
