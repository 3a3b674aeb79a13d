#include "worker/data/dataset.h"

#include <fmt/core.h>

#include <cmath>
#include <string>
#include <utility>

#include "ps/base/check.h"
#include "ps/base/random.h"
#include "worker/data/validation.h"

namespace ps::worker {
namespace {

bool HasNumbers(proto::DatasetFormat format) {
  return format == proto::DatasetFormat::kNpy || format == proto::DatasetFormat::kCsv ||
         format == proto::DatasetFormat::kTsv;
}

Status CheckTask(const proto::DataConfig& config, proto::Task task) {
  return task == proto::Task::kClasses || HasNumbers(config.format)
             ? Status::Ok()
             : Status::InvalidArgument(
                   "data.format has classes, and the model's loss learns numbers; allowed: csv, "
                   "tsv or npy");
}

Result<LoadedData> LoadFiles(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress) {
  PS_TRY(CheckTask(config, task));
  switch (config.format) {
    case proto::DatasetFormat::kText:
      return LoadText(config, progress);
    case proto::DatasetFormat::kNpy:
      return LoadNpy(config, task, progress);
    case proto::DatasetFormat::kCsv:
    case proto::DatasetFormat::kTsv:
      return LoadTable(config, task, progress);
    case proto::DatasetFormat::kPictures:
      return LoadPictures(config, progress);
    default:
      return LoadImages(config, progress);
  }
}

/// What there is shows in all of it, not in headers.
bool IsReadInFull(proto::DatasetFormat format) {
  return format == proto::DatasetFormat::kText || format == proto::DatasetFormat::kCsv ||
         format == proto::DatasetFormat::kTsv;
}

/// An epoch that no training has, so that the choice is no epoch's order.
constexpr uint64_t kValidationEpoch = uint64_t{1} << 40;

Result<DatasetInfo> InspectFiles(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress) {
  if (IsReadInFull(config.format)) {
    LoadProgress unasked;
    PS_ASSIGN(
        const LoadedData data, LoadFiles(config, task, progress == nullptr ? &unasked : progress));
    return data.info;
  }
  PS_TRY(CheckTask(config, task));
  switch (config.format) {
    case proto::DatasetFormat::kNpy:
      return InspectNpy(config, task);
    case proto::DatasetFormat::kPictures:
      return InspectPictures(config);
    default:
      return InspectImages(config);
  }
}

}  // namespace

Status ApplyLimits(
    const proto::DataConfig& config, uint64_t train_count, uint64_t test_count, DatasetInfo* info) {
  const auto apply = [](const char* name, uint64_t limit, uint64_t count, uint64_t* used) {
    *used = limit == 0 ? count : limit;
    return limit <= count
               ? Status::Ok()
               : Status::InvalidArgument(fmt::format(
                     "{} is {}; allowed: up to {}, which is all that data.directory has, or 0 for "
                     "all",
                     name,
                     limit,
                     count));
  };
  PS_TRY(apply("data.train_samples", config.train_samples, train_count, &info->train_count));
  return apply("data.test_samples", config.test_samples, test_count, &info->test_count);
}

std::string WrongTarget(proto::Task task, float target) {
  if (!std::isfinite(target)) {
    return fmt::format("is {}; allowed: finite numbers", target);
  }
  if (task == proto::Task::kLabels && target != 0 && target != 1) {
    return fmt::format(
        "is {}; bce learns labels that are 0 or 1 (mse, mae and huber learn any numbers)", target);
  }
  return {};
}

proto::DatasetFingerprint FingerprintOf(const DatasetInfo& info) {
  proto::DatasetFingerprint print;
  print.channels = static_cast<uint32_t>(info.shape.channels);
  print.height = static_cast<uint32_t>(info.shape.height);
  print.width = static_cast<uint32_t>(info.shape.width);
  print.classes = static_cast<uint32_t>(info.classes);
  print.train_count = info.train_count;
  print.test_count = info.test_count;
  return print;
}

Status Samples::ReadRaw(
    uint64_t /*sample*/,
    uint64_t /*draw*/,
    std::span<uint8_t> /*bytes*/,
    PictureMove* /*move*/,
    std::span<uint32_t> /*labels*/) const {
  PS_CHECK(false) << "samples without bytes were asked for them";
  return Status::Ok();
}

BatchLayout::BatchLayout(const DatasetInfo& info, BatchForm form, const PictureFormat* pictures)
    : values_(form == BatchForm::kValues ? static_cast<uint64_t>(info.shape.element_count()) : 0),
      labels_(static_cast<uint64_t>(info.labels)),
      bytes_(form == BatchForm::kBytes ? static_cast<uint64_t>(pictures->byte_count()) : 0),
      moves_(form == BatchForm::kBytes ? 1 : 0) {}

uint64_t BatchLayout::BytesFor(uint64_t samples) const {
  return samples * (values_ * sizeof(float) + labels_ * sizeof(uint32_t) +
                    moves_ * sizeof(PictureMove) + bytes_);
}

BatchMemory BatchLayout::At(std::byte* data, uint64_t samples) const {
  // Bytes are last, because behind them nothing else is aligned.
  std::byte* const labels = data + samples * values_ * sizeof(float);
  std::byte* const moves = labels + samples * labels_ * sizeof(uint32_t);
  std::byte* const bytes = moves + samples * moves_ * sizeof(PictureMove);
  return {
      {reinterpret_cast<float*>(data), samples * values_},
      {reinterpret_cast<uint32_t*>(labels), samples * labels_},
      {reinterpret_cast<uint8_t*>(bytes), samples * bytes_},
      {reinterpret_cast<PictureMove*>(moves), samples * moves_}};
}

bool BatchLayout::Fits(const BatchMemory& memory, uint64_t samples) const {
  return memory.images.size() == samples * values_ && memory.labels.size() == samples * labels_ &&
         memory.bytes.size() == samples * bytes_ && memory.moves.size() == samples * moves_;
}

Result<Dataset> Dataset::Load(
    const proto::DataConfig& config,
    LoadProgress* progress,
    proto::Task task,
    uint64_t seed,
    StoredState stored) {
  LoadProgress unasked;
  progress = progress == nullptr ? &unasked : progress;
  PS_ASSIGN(const FetchedData here, DataHere(config, progress, stored));
  Result<LoadedData> data = LoadFiles(here.config, task, progress);
  PS_TRY(data.status());
  data->note += (data->note.empty() || here.note.empty() ? "" : "; ") + here.note;
  data->as_stored = data->train;
  PS_TRY(Augment(config.augment, &*data));
  const uint64_t count = data->info.train_count;
  PS_TRY(KeepForValidation(config, &data->info));
  FindUnusedValidation(here.config, &data->info);
  std::optional<EpochOrder> split;
  if (config.validation_share > 0 && config.format != proto::DatasetFormat::kText) {
    split = EpochOrder(seed, kValidationEpoch, count);
  }
  return Dataset(std::move(data).value(), split);
}

Result<DatasetInfo> Dataset::Inspect(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress, StoredState stored) {
  PS_ASSIGN(const FetchedData here, DataHere(config, progress, stored));
  PS_ASSIGN(DatasetInfo info, InspectFiles(here.config, task, progress));
  PS_TRY(CheckAugment(config.augment, info.shape));
  PS_TRY(KeepForValidation(config, &info));
  FindUnusedValidation(here.config, &info);
  return info;
}

Result<DatasetInfo> Dataset::InspectKnown(
    const proto::DataConfig& config, const proto::DatasetFingerprint& known, proto::Task task) {
  // A fingerprint does not say how many samples are in a part for validation.
  if (!IsReadInFull(config.format) || !config.validation.empty()) {
    return Inspect(config, task, nullptr, StoredState::kCachedFirst);
  }
  DatasetInfo info;
  info.shape = {known.channels, known.height, known.width};
  info.classes = known.classes;
  if (config.format == proto::DatasetFormat::kText) {
    info.shape.kind = ShapeKind::kTokens;
    info.shape.vocabulary = known.classes;
    info.labels = known.height;
  } else if (task != proto::Task::kClasses) {
    info.labels = known.classes;
  }
  info.train_count = known.train_count;
  info.test_count = known.test_count;
  PS_TRY(KeepForValidation(config, &info));
  return info;
}

Status Dataset::CheckAll(LoadProgress* progress) const {
  if (data_.is_checked) {
    return Status::Ok();
  }
  std::vector<float> input(static_cast<size_t>(info().shape.element_count()));
  std::vector<uint32_t> labels(static_cast<size_t>(info().labels));
  const uint64_t bytes = input.size() * sizeof(float);
  const uint64_t apart = data_.validation ? info().validation_count : 0;
  const uint64_t trained = info().train_count + info().validation_count - apart;
  LoadProgress unasked;
  LoadProgress& told = progress == nullptr ? unasked : *progress;
  told.Expect((trained + info().test_count + apart) * bytes);
  for (const auto& [samples, count] :
       {std::pair(data_.as_stored.get(), trained),
        std::pair(data_.test.get(), info().test_count),
        std::pair(data_.validation.get(), apart)}) {
    for (uint64_t i = 0; i < count; ++i) {
      PS_TRY(samples->Read(i, Mix64(i), input, labels));
      PS_TRY(told.Advance(bytes));
    }
  }
  return Status::Ok();
}

Status Dataset::FetchTrain(
    const EpochOrder& order, const SampleRange& range, const BatchMemory& memory) const {
  if (order.count() != info().train_count) {
    return Status::InvalidArgument(
        fmt::format("an order of {} samples for {}", order.count(), info().train_count));
  }
  PS_TRY(CheckFetch(range, info().train_count, memory));
  for (uint64_t i = range.begin; i < range.end; ++i) {
    const uint64_t sample = PlaceOf(order.SampleAt(i));
    PS_TRY(Read(*data_.train, sample, Mix64(order.key() ^ sample), i - range.begin, memory));
  }
  return Status::Ok();
}

Status Dataset::FetchTest(const SampleRange& range, const BatchMemory& memory) const {
  const uint64_t tests = info().test_count;
  PS_TRY(CheckFetch(range, tests + info().validation_count, memory));
  for (uint64_t i = range.begin; i < range.end; ++i) {
    if (i < tests) {
      PS_TRY(Read(*data_.test, i, Mix64(i), i - range.begin, memory));
    } else if (data_.validation) {
      const uint64_t sample = i - tests;
      PS_TRY(Read(*data_.validation, sample, Mix64(sample), i - range.begin, memory));
    } else {
      const uint64_t sample = PlaceOf(info().train_count + i - tests);
      PS_TRY(Read(*data_.as_stored, sample, Mix64(sample), i - range.begin, memory));
    }
  }
  return Status::Ok();
}

Status Dataset::CheckFetch(
    const SampleRange& range, uint64_t count, const BatchMemory& memory) const {
  if (range.begin > range.end || range.end > count) {
    return Status::InvalidArgument(
        fmt::format("samples {} to {} of {}", range.begin, range.end, count));
  }
  const uint64_t n = range.end - range.begin;
  const BatchForm form = memory.bytes.empty() ? BatchForm::kValues : BatchForm::kBytes;
  if (form == BatchForm::kBytes && pictures() == nullptr) {
    return Status::InvalidArgument(
        fmt::format("memory for bytes of {}, which have none", info().shape.ToString()));
  }
  if (!LayoutOf(form).Fits(memory, n)) {
    return Status::InvalidArgument(fmt::format(
        "memory for {} labels, {} input values, {} bytes and {} moves, for {} samples of {}",
        memory.labels.size(),
        memory.images.size(),
        memory.bytes.size(),
        memory.moves.size(),
        n,
        info().shape.ToString()));
  }
  return Status::Ok();
}

Status Dataset::Read(
    const Samples& from,
    uint64_t sample,
    uint64_t draw,
    uint64_t slot,
    const BatchMemory& memory) const {
  const auto size = static_cast<size_t>(info().shape.element_count());
  const auto labels = static_cast<size_t>(info().labels);
  const std::span<uint32_t> own_labels = memory.labels.subspan(slot * labels, labels);
  if (memory.bytes.empty()) {
    return from.Read(sample, draw, memory.images.subspan(slot * size, size), own_labels);
  }
  const auto bytes = static_cast<size_t>(pictures()->byte_count());
  return from.ReadRaw(
      sample, draw, memory.bytes.subspan(slot * bytes, bytes), &memory.moves[slot], own_labels);
}

}  // namespace ps::worker
