#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ps/base/crc32c.h"
#include "worker/data/data_listing.h"
#include "worker/data/samples.h"
#include "worker/data/table_file.h"

namespace ps::worker {
namespace {

class TableSamples final : public Samples {
 public:
  /// `labels` [rows, labels of a sample]: classes, or the bits of numbers.
  TableSamples(std::vector<float> values, std::vector<uint32_t> labels)
      : values_(std::move(values)), labels_(std::move(labels)) {}

  void Read(uint64_t sample, uint64_t /*draw*/, std::span<float> input, std::span<uint32_t> labels)
      const override {
    const auto row = values_.begin() + static_cast<int64_t>(sample * input.size());
    std::copy_n(row, input.size(), input.begin());
    const auto own = labels_.begin() + static_cast<int64_t>(sample * labels.size());
    std::copy_n(own, labels.size(), labels.begin());
  }

 private:
  const std::vector<float> values_;
  const std::vector<uint32_t> labels_;
};

Result<std::vector<std::string>> TablesOf(
    const proto::DataConfig& config, const std::string& which, std::vector<std::string>* left_out) {
  const std::string end = config.format == proto::DatasetFormat::kTsv ? ".tsv" : ".csv";
  PS_ASSIGN(DataListing tables, ListDataFiles(config.directory, which, end));
  if (tables.paths.empty()) {
    return Status::NotFound(fmt::format(
        "data.directory \"{}\" has no {}*{} and no {}*{}.gz; the rows to train on are in "
        "train{}, those for tests in test{}",
        config.directory,
        which,
        end,
        which,
        end,
        end,
        end));
  }
  left_out->insert(left_out->end(), tables.left_out.begin(), tables.left_out.end());
  return std::move(tables.paths);
}

Result<TableRows> ReadRows(
    const proto::DataConfig& config,
    proto::Task task,
    const std::vector<std::string>& paths,
    LoadProgress* progress,
    TableColumns* columns) {
  TableRows rows;
  for (const std::string& path : paths) {
    PS_TRY(AppendTable(path, config, task, columns, &rows, progress));
  }
  if (rows.count == 0) {
    return Status::Corruption(fmt::format("{}: no rows", paths.front()));
  }
  return rows;
}

/// A label as the number that it is, however it is written: 3, 3.0 and +3 are one.
std::optional<double> LabelNumber(const std::string& name) {
  const std::optional<double> number = NumberIn(name);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

/// Labels that are numbers and no classes. `numbers` are the distinct ones of so many rows,
/// ascending: a fraction, or most rows with a number of their own.
bool AreMeasured(const std::vector<double>& numbers, uint64_t rows) {
  constexpr size_t kManyNumbers = 50;
  return std::ranges::any_of(numbers, [](double n) { return n != std::floor(n); }) ||
         (numbers.size() > kManyNumbers && 2 * numbers.size() > rows);
}

/// The class of each label. Those of training say what there is. If all are whole numbers from 0
/// they are the classes; if all are whole, classes are in the order of the numbers; else in that of
/// the names.
class Classes {
 public:
  static Result<Classes> Of(const TableRows& train) {
    Classes classes;
    std::vector<double> numbers;
    for (const std::string& name : train.label_names) {
      if (const std::optional<double> number = LabelNumber(name)) {
        numbers.push_back(*number);
      }
    }
    if (numbers.size() < train.label_names.size()) {
      classes.names_ = train.label_names;
      std::ranges::sort(classes.names_);
      classes.count_ = static_cast<double>(classes.names_.size());
    } else {
      std::ranges::sort(numbers);
      numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
      if (AreMeasured(numbers, train.count)) {
        return Status::Corruption(fmt::format(
            "{}the labels are numbers and no classes: {} different ones in {} rows, from {} to {}; "
            "to predict numbers (regression), end model.layers with the loss mse, mae or huber, "
            "behind a linear layer with an output for each; for classes, give them whole numbers "
            "or names",
            train.first_places.front(),
            numbers.size(),
            train.count,
            numbers.front(),
            numbers.back()));
      }
      const bool are_classes = std::ranges::all_of(
          numbers, [](double number) { return number >= 0 && number == std::floor(number); });
      classes.count_ = are_classes ? numbers.back() + 1 : static_cast<double>(numbers.size());
      classes.numbers_ = are_classes ? std::vector<double>() : std::move(numbers);
    }
    if (classes.count_ < 2 || classes.count_ > static_cast<double>(kTableClassesMax)) {
      return Status::Corruption(fmt::format(
          "{}the training labels make {:.0f} classes; allowed: 2 to {}, named or numbered from 0 "
          "(to predict numbers, end model.layers with the loss mse)",
          train.first_places.front(),
          classes.count_,
          kTableClassesMax));
    }
    return classes;
  }

  int64_t count() const { return static_cast<int64_t>(count_); }

  /// By number; empty: a class is called as its number.
  std::vector<std::string> Names() const {
    std::vector<std::string> names = names_;
    for (const double number : numbers_) {
      names.push_back(fmt::format("{}", number));
    }
    return names;
  }

  /// Puts classes in the place of names.
  Status Number(TableRows* rows) const {
    std::vector<uint32_t> of_name;
    for (size_t i = 0; i < rows->label_names.size(); ++i) {
      const std::optional<uint32_t> own = Find(rows->label_names[i]);
      if (!own) {
        return Status::Corruption(fmt::format(
            "{}a label that no training row has, or beyond theirs; there are {} classes",
            rows->first_places[i],
            count()));
      }
      of_name.push_back(*own);
    }
    for (uint32_t& label : rows->labels) {
      label = of_name[label];
    }
    return Status::Ok();
  }

 private:
  template <typename T>
  static std::optional<uint32_t> PlaceIn(const std::vector<T>& sorted, const T& wanted) {
    const auto found = std::ranges::lower_bound(sorted, wanted);
    return found != sorted.end() && *found == wanted
               ? std::optional(static_cast<uint32_t>(found - sorted.begin()))
               : std::nullopt;
  }

  std::optional<uint32_t> Find(const std::string& name) const {
    if (!names_.empty()) {
      return PlaceIn(names_, name);
    }
    const std::optional<double> number = LabelNumber(name);
    if (!number) {
      return std::nullopt;
    }
    if (!numbers_.empty()) {
      return PlaceIn(numbers_, *number);
    }
    const bool is_class = *number >= 0 && *number < count_ && *number == std::floor(*number);
    return is_class ? std::optional(static_cast<uint32_t>(*number)) : std::nullopt;
  }

  // Ascending; both empty: classes are their numbers.
  std::vector<std::string> names_;
  std::vector<double> numbers_;
  double count_ = 0;
};

template <typename T>
uint32_t CrcOfFirst(const std::vector<T>& values, uint64_t count) {
  return Crc32c(std::as_bytes(std::span(values).first(static_cast<size_t>(count))));
}

/// Puts the bits of numbers in the place of classes.
void TakeTargets(TableRows* rows) {
  rows->labels.reserve(rows->targets.size());
  for (const float target : rows->targets) {
    rows->labels.push_back(std::bit_cast<uint32_t>(target));
  }
}

/// The means of the first rows, added up in their order: the same on every machine.
std::vector<double> MeansOf(const std::vector<float>& targets, uint64_t rows, size_t columns) {
  std::vector<double> means(columns);
  for (size_t i = 0; i < rows * columns; ++i) {
    means[i % columns] += static_cast<double>(targets[i]) / static_cast<double>(rows);
  }
  return means;
}

}  // namespace

Result<LoadedData> LoadTable(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress) {
  LoadedData loaded;
  std::vector<std::string>* const left_out = &loaded.info.left_out;
  PS_ASSIGN(const std::vector<std::string> trains, TablesOf(config, "train", left_out));
  PS_ASSIGN(const std::vector<std::string> tests, TablesOf(config, "test", left_out));
  for (const std::vector<std::string>* const paths : {&trains, &tests}) {
    for (const std::string& path : *paths) {
      progress->Expect(StoredBytes(path));
    }
  }
  TableColumns columns;
  PS_ASSIGN(TableRows train, ReadRows(config, task, trains, progress, &columns));
  PS_ASSIGN(TableRows test, ReadRows(config, task, tests, progress, &columns));
  const bool has_classes = task == proto::Task::kClasses;
  if (has_classes) {
    PS_ASSIGN(const Classes classes, Classes::Of(train));
    PS_TRY(classes.Number(&train));
    PS_TRY(classes.Number(&test));
    loaded.info.classes = classes.count();
    loaded.info.class_names = classes.Names();
  } else {
    TakeTargets(&train);
    TakeTargets(&test);
    loaded.info.labels = static_cast<int64_t>(columns.labels.size());
    loaded.info.classes = loaded.info.labels;
  }
  const uint64_t features = columns.features();
  const auto labels = static_cast<uint64_t>(loaded.info.labels);
  loaded.info.shape = {static_cast<int64_t>(features), 1, 1};
  PS_TRY(ApplyLimits(config, train.count, test.count, &loaded.info));
  loaded.fingerprint = FingerprintOf(loaded.info);
  const uint64_t train_count = loaded.info.train_count;
  const uint64_t test_count = loaded.info.test_count;
  if (!has_classes) {
    loaded.target_means = MeansOf(train.targets, train_count, columns.labels.size());
  }
  loaded.fingerprint.train_images_crc = CrcOfFirst(train.values, train_count * features);
  loaded.fingerprint.train_labels_crc = CrcOfFirst(train.labels, train_count * labels);
  loaded.fingerprint.test_images_crc = CrcOfFirst(test.values, test_count * features);
  loaded.fingerprint.test_labels_crc = CrcOfFirst(test.labels, test_count * labels);
  loaded.train = std::make_unique<TableSamples>(std::move(train.values), std::move(train.labels));
  loaded.test = std::make_unique<TableSamples>(std::move(test.values), std::move(test.labels));
  return loaded;
}

}  // namespace ps::worker
