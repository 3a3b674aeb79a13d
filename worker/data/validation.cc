#include "worker/data/validation.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "ps/base/crc32c.h"
#include "worker/data/data_listing.h"
#include "worker/data/pictures/picture_folders.h"

namespace ps::worker {
namespace {

using proto::DatasetFormat;

/// What people call it. Of two that fit a file the first is its name.
constexpr std::array<std::string_view, 4> kUsualNames = {"validation", "valid", "val", "dev"};

/// Whether a file is called `name` and not something longer: "values.csv" is none for "val".
bool IsCalled(const std::string& file, std::string_view name) {
  const char next = file.size() > name.size() ? file[name.size()] : '.';
  return file.starts_with(name) && std::isalpha(static_cast<unsigned char>(next)) == 0;
}

/// A file of one of the usual names, behind which `end` comes. What can't be listed is an error
/// when it is read.
UnusedValidation FindFile(
    const std::string& directory, std::string_view behind, std::string_view end, bool is_whole) {
  for (const std::string_view name : kUsualNames) {
    const Result<DataListing> files =
        ListDataFiles(directory, std::string(name) + std::string(behind), end);
    for (size_t i = 0; files.ok() && i < files->paths.size(); ++i) {
      const std::string file = std::filesystem::path(files->paths[i]).filename().string();
      const std::string whole = std::string(name) + std::string(end);
      if (is_whole ? file == whole || file == whole + ".gz" : IsCalled(file, name)) {
        return {std::string(name), file};
      }
    }
  }
  return {};
}

UnusedValidation FindText(const std::string& directory) {
  if (UnusedValidation found = FindFile(directory, "", ".txt", true); !found.part.empty()) {
    found.is_trained = true;
    return found;
  }
  for (const std::string_view name : kUsualNames) {
    const auto folder = std::filesystem::path(directory) / name;
    const Result<DataListing> files = ListDataFiles(folder.string(), "", ".txt");
    if (files.ok() && !files->paths.empty()) {
      return {std::string(name), std::string(name) + "/"};
    }
  }
  return {};
}

UnusedValidation Find(const proto::DataConfig& config) {
  switch (config.format) {
    case DatasetFormat::kPictures: {
      const std::string folder = UnusedFolderOf(config.directory);
      return {folder, folder.empty() ? "" : folder + "/"};
    }
    case DatasetFormat::kCsv:
      return FindFile(config.directory, "", ".csv", false);
    case DatasetFormat::kTsv:
      return FindFile(config.directory, "", ".tsv", false);
    case DatasetFormat::kNpy:
      return FindFile(config.directory, "-inputs", ".npy", false);
    case DatasetFormat::kText:
      return FindText(config.directory);
    default:
      return {};
  }
}

}  // namespace

Status KeepForValidation(const proto::DataConfig& config, DatasetInfo* info) {
  if (config.validation_share <= 0) {
    return Status::Ok();
  }
  const uint64_t count = info->train_count;
  const auto kept = static_cast<uint64_t>(
      static_cast<double>(count) * static_cast<double>(config.validation_share));
  if (kept == 0 || kept >= count) {
    return Status::InvalidArgument(fmt::format(
        "data.validation_share is {:g}, which leaves {} of {} training samples for validation; "
        "allowed: at least one of them for it, and one for training",
        config.validation_share,
        kept,
        count));
  }
  info->validation_count = kept;
  info->train_count = count - kept;
  return Status::Ok();
}

void FindUnusedValidation(const proto::DataConfig& config, DatasetInfo* info) {
  if (!config.validation.empty()) {
    return;
  }
  info->unused_validation = Find(config);
  std::erase(info->left_out, info->unused_validation.file);
}

void AddValidation(
    uint64_t count, uint32_t images_crc, uint32_t labels_crc, proto::DatasetFingerprint* print) {
  const auto add = [](uint64_t value, uint32_t* crc) {
    std::array<std::byte, sizeof(value)> bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(value >> (8 * i));
    }
    *crc = Crc32c(bytes, *crc);
  };
  add(count, &print->test_images_crc);
  add(images_crc, &print->test_images_crc);
  add(labels_crc, &print->test_labels_crc);
}

}  // namespace ps::worker
