#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>
#include <vector>

#include "ps/base/crc32c.h"
#include "worker/data/samples.h"
#include "worker/data/table_file.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

class TableSamples final : public Samples {
 public:
  TableSamples(std::vector<float> values, std::vector<uint32_t> labels)
      : values_(std::move(values)), labels_(std::move(labels)) {}

  void Read(uint64_t sample, uint64_t /*draw*/, std::span<float> input, std::span<uint32_t> labels)
      const override {
    const auto row = values_.begin() + static_cast<int64_t>(sample * input.size());
    std::copy_n(row, input.size(), input.begin());
    labels[0] = labels_[sample];
  }

 private:
  const std::vector<float> values_;
  const std::vector<uint32_t> labels_;
};

/// `which`*.csv and `which`*.csv.gz of the folder, in the order of their names.
Result<std::vector<std::string>> TablesOf(
    const proto::DataConfig& config, const std::string& which) {
  const std::string end = config.format == proto::DatasetFormat::kTsv ? ".tsv" : ".csv";
  std::vector<std::string> paths;
  std::error_code error;  // a folder that cannot be listed is one without files
  for (fs::directory_iterator it(config.directory, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(which) && (name.ends_with(end) || name.ends_with(end + ".gz"))) {
      paths.push_back(it->path().string());
    }
  }
  if (paths.empty()) {
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
  std::ranges::sort(paths);
  return paths;
}

Result<TableRows> ReadRows(
    const proto::DataConfig& config, const std::string& which, TableColumns* columns) {
  PS_ASSIGN(const std::vector<std::string> paths, TablesOf(config, which));
  TableRows rows;
  for (const std::string& path : paths) {
    PS_TRY(AppendTable(path, config, columns, &rows));
  }
  if (rows.count() == 0) {
    return Status::Corruption(fmt::format("{}: no rows", paths.front()));
  }
  return rows;
}

/// A label as the number of its class; false when it is no whole number.
bool ClassNumber(const std::string& name, uint32_t* number) {
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), *number);
  return error == std::errc() && end == name.data() + name.size();
}

/// The class of each label name. Those of training say what there is: numbers, if all are, else
/// names in their order.
class Classes {
 public:
  static Result<Classes> Of(const TableRows& train) {
    Classes classes;
    uint32_t largest = 0;
    bool are_numbers = true;
    for (size_t i = 0; i < train.label_names.size(); ++i) {
      uint32_t number = 0;
      are_numbers = are_numbers && ClassNumber(train.label_names[i], &number);
      largest = std::max(largest, number);
    }
    if (!are_numbers) {
      classes.names_ = train.label_names;
      std::ranges::sort(classes.names_);
    }
    classes.count_ =
        are_numbers ? int64_t{largest} + 1 : static_cast<int64_t>(classes.names_.size());
    if (classes.count_ < 2 || classes.count_ > static_cast<int64_t>(kTableClassesMax)) {
      return Status::Corruption(fmt::format(
          "{}the training labels make {} classes; allowed: 2 to {}, named or numbered from 0",
          train.first_places.front(),
          classes.count_,
          kTableClassesMax));
    }
    return classes;
  }

  int64_t count() const { return count_; }

  /// Puts classes in the place of names.
  Status Number(TableRows* rows) const {
    std::vector<uint32_t> of_name;
    for (size_t i = 0; i < rows->label_names.size(); ++i) {
      const std::string& name = rows->label_names[i];
      uint32_t number = 0;
      const auto found = std::ranges::lower_bound(names_, name);
      const bool is_known = names_.empty() ? ClassNumber(name, &number) && number < count_
                                           : found != names_.end() && *found == name;
      if (!is_known) {
        return Status::Corruption(fmt::format(
            "{}a label that no training row has, or beyond theirs; there are {} classes",
            rows->first_places[i],
            count_));
      }
      of_name.push_back(names_.empty() ? number : static_cast<uint32_t>(found - names_.begin()));
    }
    for (uint32_t& label : rows->labels) {
      label = of_name[label];
    }
    return Status::Ok();
  }

 private:
  std::vector<std::string> names_;  // ascending; empty: numbers
  int64_t count_ = 0;
};

template <typename T>
uint32_t CrcOfFirst(const std::vector<T>& values, uint64_t count) {
  return Crc32c(std::as_bytes(std::span(values).first(static_cast<size_t>(count))));
}

}  // namespace

Result<LoadedData> LoadTable(const proto::DataConfig& config) {
  TableColumns columns;
  PS_ASSIGN(TableRows train, ReadRows(config, "train", &columns));
  PS_ASSIGN(TableRows test, ReadRows(config, "test", &columns));
  PS_ASSIGN(const Classes classes, Classes::Of(train));
  PS_TRY(classes.Number(&train));
  PS_TRY(classes.Number(&test));
  LoadedData loaded;
  const uint64_t features = columns.count - 1;
  loaded.info.shape = {static_cast<int64_t>(features), 1, 1};
  loaded.info.classes = classes.count();
  PS_TRY(ApplyLimits(config, train.count(), test.count(), &loaded.info));
  loaded.fingerprint = FingerprintOf(loaded.info);
  const uint64_t train_count = loaded.info.train_count;
  const uint64_t test_count = loaded.info.test_count;
  loaded.fingerprint.train_images_crc = CrcOfFirst(train.values, train_count * features);
  loaded.fingerprint.train_labels_crc = CrcOfFirst(train.labels, train_count);
  loaded.fingerprint.test_images_crc = CrcOfFirst(test.values, test_count * features);
  loaded.fingerprint.test_labels_crc = CrcOfFirst(test.labels, test_count);
  loaded.train = std::make_unique<TableSamples>(std::move(train.values), std::move(train.labels));
  loaded.test = std::make_unique<TableSamples>(std::move(test.values), std::move(test.labels));
  return loaded;
}

}  // namespace ps::worker
