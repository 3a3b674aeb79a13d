#include "worker/data/store/stored_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <set>
#include <string>

#include "ps/base/text.h"

namespace ps::worker {
namespace {

using proto::DatasetFormat;

constexpr size_t kPathBytesMax = 1024;  // of a key of S3, too
constexpr size_t kPartBytesMax = 255;   // of a name in a folder

bool EndsWithAny(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

/// Calls `take` with the parts between slashes until it returns false.
template <typename Take>
bool AllParts(std::string_view name, const Take& take) {
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (!take(name.substr(begin, end - begin))) {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

bool CouldBeFile(std::string_view name) {
  const bool has_controls =
      std::ranges::any_of(name, [](unsigned char c) { return c < ' ' || c == 127; });
  return !has_controls && name.size() <= kPathBytesMax && AllParts(name, [](std::string_view part) {
    return !part.empty() && part != "." && part != ".." && part.size() <= kPartBytesMax;
  });
}

}  // namespace

bool CouldBeData(DatasetFormat format, std::string_view name, std::string_view validation) {
  const bool is_hidden = !AllParts(name, [](std::string_view part) {
    return !part.starts_with('.') || part == "." || part == "..";
  });
  if (is_hidden) {
    return false;
  }
  if (format == DatasetFormat::kPictures) {
    std::string small(name);
    std::ranges::transform(
        small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return EndsWithAny(small, {".png", ".jpg", ".jpeg"});
  }
  const size_t slash = name.find('/');
  if (format == DatasetFormat::kText && !validation.empty() &&
      name.substr(0, slash) == validation) {
    name.remove_prefix(slash == std::string_view::npos ? 0 : slash + 1);
  }
  if (name.find('/') != std::string_view::npos) {
    return false;
  }
  switch (format) {
    case DatasetFormat::kIdx:
      return EndsWithAny(name, {"-ubyte", "-ubyte.gz"});
    case DatasetFormat::kText:
      return EndsWithAny(name, {".txt", ".txt.gz"});
    case DatasetFormat::kCsv:
      return EndsWithAny(name, {".csv", ".csv.gz"});
    case DatasetFormat::kTsv:
      return EndsWithAny(name, {".tsv", ".tsv.gz"});
    case DatasetFormat::kNpy:
      return EndsWithAny(name, {".npy"});
    default:
      return EndsWithAny(name, {".bin", ".bin.gz"});
  }
}

Status CheckNames(const std::vector<store::StoredObject>& objects) {
  std::set<std::string, std::less<>> files;
  for (const store::StoredObject& object : objects) {
    const std::string shown = Printable(Clip(object.name, 200));
    if (!CouldBeFile(object.name)) {
      return Status::InvalidArgument(fmt::format(
          "the object \"{}\" can be no file: its name has \"..\", \".\", nothing between two "
          "slashes, control characters or more than {} bytes; rename it, or put the data below a "
          "prefix of its own",
          shown,
          kPartBytesMax));
    }
    // A folder's name sorts before what is in it, and others may lie between.
    for (size_t slash = object.name.find('/'); slash != std::string::npos;
         slash = object.name.find('/', slash + 1)) {
      if (files.contains(std::string_view(object.name).substr(0, slash))) {
        return Status::InvalidArgument(fmt::format(
            "\"{}\" is below an object, and on a disk nothing can be below a file; rename one",
            shown));
      }
    }
    if (!files.insert(object.name).second) {
      return Status::InvalidArgument(fmt::format("the store lists \"{}\" twice", shown));
    }
  }
  return Status::Ok();
}

}  // namespace ps::worker
