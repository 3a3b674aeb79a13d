#include "worker/use/inputs.h"

#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "ps/json/json_reader.h"
#include "ps/proto/job/data_parts.h"
#include "ps/proto/job/job_config.h"
#include "worker/use/input_kinds.h"

namespace ps::worker {
namespace {

/// Whether there can be a part that is called so.
Status CheckPart(
    const ModelCard& card, const std::string& path, bool is_folder, const std::string& part) {
  const std::string format(config::kDatasetFormatNames[static_cast<size_t>(card.data.format)]);
  if (!is_folder) {
    return Status::InvalidArgument(fmt::format(
        "{} is a file, and the part {} is asked for; allowed: a folder that has it",
        path,
        Quoted(part)));
  }
  if (!proto::HasNamedParts(card.data.format)) {
    return Status::InvalidArgument(fmt::format(
        "data of format {} have no part {}; allowed: without a part, their test samples",
        format,
        Quoted(part)));
  }
  return proto::IsPartName(part)
             ? Status::Ok()
             : Status::InvalidArgument(fmt::format(
                   "{} is no part of data; allowed: the name of a folder or what names of files "
                   "begin with, as val",
                   Quoted(part)));
}

}  // namespace

Status NoLabels(const std::string& path, std::string_view remedy) {
  return Status::InvalidArgument(
      fmt::format("{} has no labels, which are needed to evaluate; {}", path, remedy));
}

Status OtherShape(const std::string& path, const Shape& shape, const Shape& model) {
  return Status::InvalidArgument(fmt::format(
      "{}: samples of {}; the model takes {}", path, shape.ToString(), model.ToString()));
}

Result<Inputs> OpenInputs(
    const ModelCard& card,
    const std::string& path,
    LabelUse use,
    LoadProgress* progress,
    const std::string& part) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  if (!is_folder && !std::filesystem::is_regular_file(path, error)) {
    return Status::NotFound(fmt::format(
        "{} is no folder and no file; allowed: data in the format {} of the model's job",
        path,
        config::kDatasetFormatNames[static_cast<size_t>(card.data.format)]));
  }
  if (!part.empty()) {
    PS_TRY(CheckPart(card, path, is_folder, part));
  }
  LoadProgress unasked;
  const InputsWanted wanted{
      card, path, is_folder, use, progress == nullptr ? &unasked : progress, part};
  switch (card.data.format) {
    case proto::DatasetFormat::kText:
      return OpenTexts(wanted);
    case proto::DatasetFormat::kNpy:
      return OpenArrays(wanted);
    case proto::DatasetFormat::kCsv:
    case proto::DatasetFormat::kTsv:
      return OpenTables(wanted);
    case proto::DatasetFormat::kPictures:
      return OpenPictureFiles(wanted);
    default:
      return OpenPictures(wanted);
  }
}

}  // namespace ps::worker
