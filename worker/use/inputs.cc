#include "worker/use/inputs.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "worker/use/input_kinds.h"

namespace ps::worker {

Status NoLabels(const std::string& path, std::string_view remedy) {
  return Status::InvalidArgument(
      fmt::format("{} has no labels, which are needed to evaluate; {}", path, remedy));
}

Status OtherShape(const std::string& path, const Shape& shape, const Shape& model) {
  return Status::InvalidArgument(fmt::format(
      "{}: samples of {}; the model takes {}", path, shape.ToString(), model.ToString()));
}

Result<Inputs> OpenInputs(
    const ModelCard& card, const std::string& path, LabelUse use, LoadProgress* progress) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  if (!is_folder && !std::filesystem::is_regular_file(path, error)) {
    return Status::NotFound(fmt::format(
        "{} is no folder and no file; allowed: data in the format {} of the model's job",
        path,
        config::kDatasetFormatNames[static_cast<size_t>(card.data.format)]));
  }
  LoadProgress unasked;
  const InputsWanted wanted{card, path, is_folder, use, progress == nullptr ? &unasked : progress};
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
