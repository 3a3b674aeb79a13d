#include "worker/use/card_of_job.h"

#include <filesystem>
#include <string>
#include <utility>

#include "ps/proto/job/task.h"
#include "worker/data/data_listing.h"
#include "worker/data/dataset.h"
#include "worker/data/npy/npy_file.h"
#include "worker/data/store/stored_data.h"
#include "worker/data/table/table_file.h"
#include "worker/model/zoo.h"
#include "worker/use/tokens.h"

namespace ps::worker {
namespace {

using proto::DatasetFormat;

bool IsPictures(DatasetFormat format) {
  return format == DatasetFormat::kIdx || format == DatasetFormat::kCifar10 ||
         format == DatasetFormat::kCifar100 || format == DatasetFormat::kPictures;
}

bool IsTable(DatasetFormat format) {
  return format == DatasetFormat::kCsv || format == DatasetFormat::kTsv;
}

std::string Absolute(const std::string& path) {
  return path.empty() || IsInStore(path)
             ? path
             : std::filesystem::absolute(path).lexically_normal().string();
}

/// Arrays of bytes become byte / 255.
Status TakeByteScale(const proto::DataConfig& config, ModelCard* card) {
  PS_ASSIGN(const DataListing files, ListDataFiles(config.directory, "train-inputs", ".npy"));
  if (files.paths.empty()) {
    return Status::NotFound(config.directory + " has no train-inputs*.npy any more");
  }
  PS_ASSIGN(const NpyFile inputs, NpyFile::Open(files.paths.front()));
  if (inputs.type() == ElementType::kU8) {
    const Shape& input = card->input;
    card->normals.assign(input.is_flat() ? 1 : static_cast<size_t>(input.channels), {0, 255});
  }
  return Status::Ok();
}

/// Shape and classes; of pictures what bytes become, of tables the names of classes, of numbers
/// their means.
Status TakeData(
    const proto::DataConfig& config,
    proto::Task task,
    const DatasetInfo* known,
    LoadProgress* progress,
    ModelCard* card) {
  DatasetInfo info;
  const bool has_means = task == proto::Task::kNumbers;
  if (IsPictures(config.format) || IsTable(config.format) || has_means) {
    proto::DataConfig train = config;
    train.test_samples = 1;  // nothing of the tests is asked for
    PS_ASSIGN(const Dataset data, Dataset::Load(train, progress, task));
    info = data.info();
    card->normals = data.normals();
    if (has_means) {
      card->target_means.assign(data.target_means().begin(), data.target_means().end());
    }
  } else if (known != nullptr) {
    info = *known;
  } else {
    PS_ASSIGN(info, Dataset::Inspect(config, task));
  }
  card->input = info.shape;
  card->classes = info.classes;
  card->labels = info.labels;
  card->class_names = std::move(info.class_names);
  return config.format == DatasetFormat::kNpy ? TakeByteScale(config, card) : Status::Ok();
}

Status TakeColumns(const proto::DataConfig& config, ModelCard* card) {
  if (!config.header) {
    return Status::Ok();
  }
  const bool is_tsv = config.format == DatasetFormat::kTsv;
  PS_ASSIGN(
      const DataListing files, ListDataFiles(config.directory, "train", is_tsv ? ".tsv" : ".csv"));
  if (files.paths.empty()) {
    return Status::NotFound(config.directory + " has no training tables any more");
  }
  PS_ASSIGN(const TableColumns columns, ReadTableColumns(files.paths.front(), config));
  for (size_t i = 0; i < columns.names.size(); ++i) {
    if (!columns.is_label[i]) {
      card->columns.push_back(columns.names[i]);
    }
  }
  for (const size_t label : columns.labels) {
    card->label_columns.push_back(columns.names[label]);
  }
  return Status::Ok();
}

Status TakeTokenizer(const std::string& folder, ModelCard* card) {
  PS_ASSIGN(TokenizerDigest digest, DigestOfTokenizer(folder));
  card->tokens = digest.tokens;
  card->vocabulary_sha256 = std::move(digest.vocabulary);
  card->merges_sha256 = std::move(digest.merges);
  return Status::Ok();
}

}  // namespace

uint64_t BytesForCard(const proto::DataConfig& config, const DatasetInfo& info) {
  return IsPictures(config.format)
             ? info.train_count * static_cast<uint64_t>(info.shape.element_count())
             : 0;
}

Result<ModelCard> CardOfJob(
    const proto::JobConfig& config, LoadProgress* progress, const DatasetInfo* known) {
  if (!config.worker.program.empty()) {
    return Status::Unsupported(
        "worker.program makes its model itself; layers of our own are known here");
  }
  ModelCard card;
  PS_ASSIGN(const FetchedData fetched, DataHere(config.data, progress));
  const proto::DataConfig& data = fetched.config;
  PS_TRY(TakeData(data, proto::TaskOf(config.model), known, progress, &card));
  card.data = config.data;
  card.data.directory = Absolute(config.data.directory);
  card.data.tokenizer = Absolute(config.data.tokenizer);
  if (IsTable(config.data.format)) {
    PS_TRY(TakeColumns(data, &card));
  }
  if (!config.data.tokenizer.empty()) {
    PS_TRY(TakeTokenizer(data.tokenizer, &card));
  }
  card.layers = config.model.layers;
  if (card.layers.empty()) {
    PS_ASSIGN(card.layers, ZooLayers(config.model, card.input, card.classes));
  }
  PS_TRY(ModelOf(card).status());
  return card;
}

}  // namespace ps::worker
