#include <fmt/core.h>

#include <algorithm>
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
    const std::vector<std::string>& paths,
    LoadProgress* progress,
    TableColumns* columns) {
  TableRows rows;
  for (const std::string& path : paths) {
    PS_TRY(AppendTable(path, config, columns, &rows, progress));
  }
  if (rows.count() == 0) {
    return Status::Corruption(fmt::format("{}: no rows", paths.front()));
  }
  return rows;
}

/// A label as the number that it is, however it is written: 3, 3.0 and +3 are one.
std::optional<double> LabelNumber(const std::string& name) {
  const std::optional<double> number = NumberIn(name);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

/// The class of each label. Those of training say what there is. If all are whole numbers from 0
/// they are the classes; if all are numbers, classes are in the order of the numbers; else in that
/// of the names.
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
      const bool are_classes = std::ranges::all_of(
          numbers, [](double number) { return number >= 0 && number == std::floor(number); });
      classes.count_ = are_classes ? numbers.back() + 1 : static_cast<double>(numbers.size());
      classes.numbers_ = are_classes ? std::vector<double>() : std::move(numbers);
    }
    if (classes.count_ < 2 || classes.count_ > static_cast<double>(kTableClassesMax)) {
      return Status::Corruption(fmt::format(
          "{}the training labels make {:.0f} classes; allowed: 2 to {}, named or numbered from 0",
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

}  // namespace

Result<LoadedData> LoadTable(const proto::DataConfig& config, LoadProgress* progress) {
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
  PS_ASSIGN(TableRows train, ReadRows(config, trains, progress, &columns));
  PS_ASSIGN(TableRows test, ReadRows(config, tests, progress, &columns));
  PS_ASSIGN(const Classes classes, Classes::Of(train));
  PS_TRY(classes.Number(&train));
  PS_TRY(classes.Number(&test));
  const uint64_t features = columns.count - 1;
  loaded.info.shape = {static_cast<int64_t>(features), 1, 1};
  loaded.info.classes = classes.count();
  loaded.info.class_names = classes.Names();
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
