#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "ps/base/text.h"
#include "ps/json/json_reader.h"
#include "worker/data/data_listing.h"
#include "worker/data/image_files.h"
#include "worker/data/pictures/picture_folders.h"
#include "worker/data/pictures/picture_reader.h"
#include "worker/use/input_kinds.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

/// The files, and what a table of predictions calls them.
struct Found {
  LabeledPaths files;
  std::vector<std::string> names;
};

/// Puts the model's classes into the place of numbers in `names`.
Status Number(
    const InputsWanted& wanted, const std::vector<std::string>& names, LabeledPaths* files) {
  const std::vector<std::string>& known = wanted.card.class_names;
  std::vector<uint32_t> numbers;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      return Status::InvalidArgument(fmt::format(
          "{}: folder {} is none of the model's classes, which are {}",
          wanted.path,
          Quoted(name),
          Clip(Join(known), 200)));
    }
    numbers.push_back(static_cast<uint32_t>(found - known.begin()));
  }
  for (uint32_t& label : files->labels) {
    label = numbers[label];
  }
  return Status::Ok();
}

/// The folder that the model's job has measured epochs on, where there is one: its tests are
/// others.
std::string ValidationIn(const InputsWanted& wanted) {
  const std::string& name = wanted.card.data.validation;
  std::error_code ignored;  // what can't be looked at is an error when it is listed
  return !name.empty() && fs::is_directory(fs::path(wanted.path) / name, ignored) ? name : "";
}

/// The folder of the pictures that are asked for; empty: there is none.
Result<std::string> FolderOf(const InputsWanted& wanted) {
  if (wanted.part.empty()) {
    return TestFolderOf(wanted.path, ValidationIn(wanted));
  }
  std::error_code ignored;  // what can't be looked at is an error when it is listed
  return fs::is_directory(fs::path(wanted.path) / wanted.part, ignored)
             ? Result<std::string>(wanted.part)
             : Status::NotFound(
                   fmt::format("{} has no folder {}", wanted.path, Quoted(wanted.part)));
}

/// A folder that is laid out as for training, without one for tests: the tests are a share of each
/// class.
Result<PictureListing> ListShared(const InputsWanted& wanted) {
  return ListPictureFolders(
      wanted.path, static_cast<double>(wanted.card.data.test_share), ValidationIn(wanted));
}

/// The test pictures of a folder that is laid out as for training, or has classes itself.
Result<LabeledPaths> FindLabeled(const InputsWanted& wanted) {
  std::vector<std::string> left_out;
  PS_ASSIGN(const std::string test, FolderOf(wanted));
  if (test.empty() && HasTrainFolder(wanted.path)) {
    PS_ASSIGN(PictureListing listing, ListShared(wanted));
    PS_TRY(Number(wanted, listing.class_names, &listing.test));
    return std::move(listing.test);
  }
  PS_ASSIGN(const ClassFolders folders, ListClassFolders(wanted.path, test, &left_out));
  if (folders.names.empty()) {
    return NoLabels(wanted.path, "they are the names of the folders that the pictures are in");
  }
  LabeledPaths files = InTurns(folders.paths);
  PS_TRY(Number(wanted, folders.names, &files));
  return files;
}

/// All pictures in a folder, or its test pictures, if it is laid out as for training.
Result<LabeledPaths> FindUnlabeled(const InputsWanted& wanted) {
  std::vector<std::string> left_out;
  PS_ASSIGN(const std::string test, FolderOf(wanted));
  LabeledPaths files;
  if (test.empty() && HasTrainFolder(wanted.path)) {
    PS_ASSIGN(PictureListing listing, ListShared(wanted));
    files.paths = std::move(listing.test.paths);
    std::ranges::sort(files.paths);
  } else {
    const fs::path folder = fs::path(wanted.path) / test;
    PS_ASSIGN(files.paths, ListPictures(folder.string(), &left_out));
    for (std::string& path : files.paths) {
      path = (folder / path).string();
    }
  }
  files.labels.assign(files.paths.size(), 0);
  return files;
}

Result<Found> Find(const InputsWanted& wanted) {
  Found found;
  if (!wanted.is_folder) {
    if (wanted.needs_labels()) {
      return NoLabels(wanted.path, "name a folder that has folders of classes");
    }
    found.files = {{wanted.path}, {0}};
    found.names = {fs::path(wanted.path).filename().string()};
    return found;
  }
  PS_ASSIGN(found.files, wanted.needs_labels() ? FindLabeled(wanted) : FindUnlabeled(wanted));
  if (found.files.count() == 0) {
    return Status::InvalidArgument(
        wanted.path + " has no pictures, which are files *.png, *.jpg and *.jpeg");
  }
  for (const std::string& path : found.files.paths) {
    found.names.push_back(fs::path(path).lexically_relative(wanted.path).string());
  }
  return found;
}

/// What the model's description says of pictures, which may be anything.
Status CheckModel(const ModelCard& card) {
  const Shape& in = card.input;
  const bool is_good = (in.channels == 1 || in.channels == 3) && in.height <= kImageSideMax &&
                       in.width <= kImageSideMax &&
                       static_cast<int64_t>(card.normals.size()) == in.channels;
  return is_good ? Status::Ok()
                 : Status::InvalidArgument(fmt::format(
                       "the model takes {}, by {} means; pictures have 1 or 3 channels, sides of "
                       "up to {}, and a mean for each channel",
                       in.ToString(),
                       card.normals.size(),
                       kImageSideMax));
}

}  // namespace

Result<Inputs> OpenPictureFiles(const InputsWanted& wanted) {
  const ModelCard& card = wanted.card;
  PS_TRY(CheckModel(card));
  PS_ASSIGN(Found found, Find(wanted));
  const uint64_t most = kPixelBytesMax / static_cast<uint64_t>(card.input.element_count());
  if (found.files.count() > most) {
    return Status::InvalidArgument(fmt::format(
        "{} has {}; allowed: {} at a time, which are {} in memory",
        wanted.path,
        Plural(found.files.count(), "picture"),
        FormatCount(most),
        FormatBytes(kPixelBytesMax)));
  }
  for (const std::string& path : found.files.paths) {
    wanted.progress->Expect(StoredBytes(path));
  }
  const PictureSize size = {
      static_cast<uint32_t>(card.input.height), static_cast<uint32_t>(card.input.width)};
  PS_ASSIGN(
      PictureBytes read,
      ReadPictures(
          found.files.paths, static_cast<uint32_t>(card.input.channels), size, wanted.progress));
  Inputs inputs;
  inputs.count = found.files.count();
  inputs.has_labels = wanted.needs_labels();
  inputs.names = std::move(found.names);
  inputs.samples = MakeImageSamples(
      card.input,
      SharedArray<uint8_t>(std::move(read.pixels)),
      std::move(found.files.labels),
      card.normals,
      0);
  return inputs;
}

}  // namespace ps::worker
