#include "worker/data/pictures/picture_folders.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "ps/base/text.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrain = "train";
constexpr const char* kTest = "test";
constexpr std::array<const char*, 3> kTests = {kTest, "val", "validation"};
constexpr std::array<std::string_view, 3> kEnds = {".png", ".jpg", ".jpeg"};

bool IsPictureName(const std::string& name) {
  std::string small = name;
  std::ranges::transform(
      small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return small.ends_with(end); });
}

bool IsFolder(const fs::path& path) {
  std::error_code ignored;  // what can't be looked at is an error when it is listed or read
  return fs::is_directory(path, ignored);
}

/// Whether some lie in `folder`, but for those whose names begin with a point.
bool HasFolders(const fs::path& folder) {
  std::error_code error;  // what can't be listed is an error when it is wanted
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (it->path().filename().string().front() != '.' && IsFolder(it->path())) {
      return true;
    }
  }
  return false;
}

/// Names in a folder, without what begins with a point.
Result<std::vector<std::string>> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.front() != '.') {
      names.push_back(std::move(name));
    }
  }
  if (error) {
    return Status::Io(fmt::format("{} cannot be listed: {}", folder.string(), error.message()));
  }
  return names;
}

/// Collects what a folder and those below it have.
class Collector {
 public:
  /// `prefix`: in front of what is left out.
  Collector(std::string prefix, std::vector<std::string>* left_out)
      : prefix_(std::move(prefix)), left_out_(left_out) {}

  Status Collect(const fs::path& folder, const std::string& below, int depth) {
    if (depth > kFolderDepthMax) {
      return Status::InvalidArgument(fmt::format(
          "{} lies {} folders deep, as behind a link that leads back; allowed: {} levels below "
          "that of a class",
          folder.string(),
          depth,
          kFolderDepthMax));
    }
    PS_ASSIGN(const std::vector<std::string> names, NamesIn(folder));
    for (const std::string& name : names) {
      const fs::path path = folder / name;
      std::error_code ignored;  // what can't be looked at is an error when it is read
      const fs::file_status status = fs::status(path, ignored);
      // A pipe or a device could be waited for without end.
      if (fs::is_directory(status)) {
        PS_TRY(Collect(path, below + name + "/", depth + 1));
      } else if (!IsPictureName(name) || fs::is_other(status)) {
        left_out_->push_back(prefix_ + below + name);
      } else if (pictures_.size() == kPictureFilesMax) {
        return Status::InvalidArgument(fmt::format(
            "{} has more than {} pictures", folder.string(), FormatCount(kPictureFilesMax)));
      } else {
        pictures_.push_back(below + name);
      }
    }
    return Status::Ok();
  }

  std::vector<std::string> Take() {
    std::ranges::sort(pictures_);
    return std::move(pictures_);
  }

 private:
  const std::string prefix_;
  std::vector<std::string>* const left_out_;
  std::vector<std::string> pictures_;
};

/// The first few by their names, and how many more there are.
void Shorten(std::vector<std::string>* left_out) {
  std::ranges::sort(*left_out);
  if (left_out->size() > kLeftOutMax) {
    const size_t more = left_out->size() - kLeftOutMax;
    left_out->resize(kLeftOutMax);
    left_out->push_back(fmt::format("{} more", FormatCount(more)));
  }
}

Status CheckClasses(const std::string& folder, const ClassFolders& classes) {
  const size_t count = classes.names.size();
  if (count < 2 || count > kPictureClassesMax) {
    return Status::InvalidArgument(fmt::format(
        "data.directory: {} has {}; allowed: 2 to {}, each with the pictures of a class",
        folder,
        Plural(count, "folder"),
        FormatCount(kPictureClassesMax)));
  }
  for (size_t c = 0; c < count; ++c) {
    if (classes.paths[c].empty()) {
      return Status::InvalidArgument(fmt::format(
          "data.directory: {}/{} has no pictures (*.png, *.jpg, *.jpeg); allowed: at least one of "
          "each class, or no folder for it",
          folder,
          classes.names[c]));
    }
  }
  return Status::Ok();
}

using PathsOfClasses = std::vector<std::vector<std::string>>;

/// The pictures in `folder` of each class of training, which are for something else.
Result<PathsOfClasses> ListOthers(
    const std::string& directory,
    const std::string& folder,
    const std::vector<std::string>& names,
    std::vector<std::string>* left_out) {
  PS_ASSIGN(ClassFolders others, ListClassFolders(directory, folder, left_out));
  PathsOfClasses ordered(names.size());
  for (size_t i = 0; i < others.names.size(); ++i) {
    const auto place = std::ranges::lower_bound(names, others.names[i]);
    if (place == names.end() || *place != others.names[i]) {
      return Status::InvalidArgument(fmt::format(
          "data.directory: {}/{} is a class that training lacks; it has {}",
          (fs::path(directory) / folder).string(),
          others.names[i],
          Clip(Join(names), 200)));
    }
    ordered[static_cast<size_t>(place - names.begin())] = std::move(others.paths[i]);
  }
  return ordered;
}

/// The pictures that epochs are measured on.
Result<LabeledPaths> ListValidation(
    const std::string& directory,
    const std::string& folder,
    const std::vector<std::string>& names,
    std::vector<std::string>* left_out) {
  if (!IsFolder(fs::path(directory) / folder)) {
    return Status::NotFound(fmt::format(
        "data.validation is \"{0}\", and data.directory \"{1}\" has no folder {0}; the pictures "
        "that epochs are measured on are in {0}/CLASS/",
        folder,
        directory));
  }
  PS_ASSIGN(const PathsOfClasses paths, ListOthers(directory, folder, names, left_out));
  LabeledPaths pictures = InTurns(paths);
  if (pictures.count() == 0) {
    return Status::InvalidArgument(fmt::format(
        "data.validation is \"{0}\", and {1}/{0} has no pictures in folders of classes; allowed: "
        "some in {0}/CLASS/, or no data.validation",
        folder,
        directory));
  }
  return pictures;
}

/// Takes the last `share` of each class.
PathsOfClasses Split(double share, PathsOfClasses* classes) {
  PathsOfClasses tests;
  for (std::vector<std::string>& paths : *classes) {
    const auto wanted = std::llround(share * static_cast<double>(paths.size()));
    const auto most = static_cast<int64_t>(paths.size()) - 1;
    const auto first = paths.end() - std::min<int64_t>(std::max<int64_t>(wanted, 1), most);
    tests.emplace_back(first, paths.end());
    paths.erase(first, paths.end());
  }
  return tests;
}

}  // namespace

void LabeledPaths::KeepFirst(uint64_t count) {
  paths.resize(std::min<size_t>(paths.size(), count));
  labels.resize(paths.size());
}

LabeledPaths InTurns(const std::vector<std::vector<std::string>>& classes) {
  LabeledPaths all;
  size_t longest = 0;
  for (const std::vector<std::string>& paths : classes) {
    longest = std::max(longest, paths.size());
  }
  for (size_t i = 0; i < longest; ++i) {
    for (size_t c = 0; c < classes.size(); ++c) {
      if (i < classes[c].size()) {
        all.paths.push_back(classes[c][i]);
        all.labels.push_back(static_cast<uint32_t>(c));
      }
    }
  }
  return all;
}

bool HasTrainFolder(const std::string& directory) {
  return IsFolder(fs::path(directory) / kTrain);
}

Result<std::vector<std::string>> ListPictures(
    const std::string& folder, std::vector<std::string>* left_out) {
  Collector collector("", left_out);
  PS_TRY(collector.Collect(folder, "", 0));
  Shorten(left_out);
  return collector.Take();
}

Result<ClassFolders> ListClassFolders(
    const std::string& root, const std::string& folder, std::vector<std::string>* left_out) {
  const fs::path parent = fs::path(root) / folder;
  const std::string prefix = folder.empty() ? "" : folder + "/";
  PS_ASSIGN(std::vector<std::string> names, NamesIn(parent));
  std::ranges::sort(names);
  ClassFolders classes;
  for (const std::string& name : names) {
    const fs::path path = parent / name;
    if (!IsFolder(path)) {
      left_out->push_back(prefix + name);
      continue;
    }
    if (Printable(name) != name) {
      return Status::InvalidArgument(fmt::format(
          "{}: the folder {} has a character in its name that no line of text shows; rename it",
          parent.string(),
          Printable(name)));
    }
    Collector collector(prefix + name + "/", left_out);
    PS_TRY(collector.Collect(path, "", 0));
    classes.names.push_back(name);
    for (std::vector<std::string>& paths = classes.paths.emplace_back(collector.Take());
         std::string & below : paths) {
      below = (path / below).string();
    }
  }
  return classes;
}

std::string TestFolderOf(const std::string& directory, const std::string& validation) {
  if (!validation.empty()) {
    return HasFolders(fs::path(directory) / kTest) ? kTest : "";
  }
  std::string first;
  for (const char* const name : kTests) {
    const fs::path folder = fs::path(directory) / name;
    if (HasFolders(folder)) {
      return name;
    }
    if (first.empty() && IsFolder(folder)) {
      first = name;
    }
  }
  return first;
}

std::string UnusedFolderOf(const std::string& directory) {
  const std::string test = TestFolderOf(directory);
  for (const char* const name : {"val", "valid", "validation", "dev"}) {
    if (name != test && HasFolders(fs::path(directory) / name)) {
      return name;
    }
  }
  return "";
}

Result<PictureListing> ListPictureFolders(
    const std::string& directory, double test_share, const std::string& validation) {
  if (!HasTrainFolder(directory)) {
    return Status::NotFound(fmt::format(
        "data.directory \"{}\" has no folder {}; the pictures to train on are in train/CLASS/, "
        "*.png, *.jpg or *.jpeg, and those for tests in test/CLASS/, if there are any",
        directory,
        kTrain));
  }
  PictureListing listing;
  PS_ASSIGN(ClassFolders trains, ListClassFolders(directory, kTrain, &listing.left_out));
  PS_TRY(CheckClasses((fs::path(directory) / kTrain).string(), trains));
  const std::string test = TestFolderOf(directory, validation);
  PathsOfClasses tests;
  if (test.empty()) {
    tests = Split(test_share, &trains.paths);
  } else {
    PS_ASSIGN(tests, ListOthers(directory, test, trains.names, &listing.left_out));
  }
  if (!validation.empty()) {
    PS_ASSIGN(
        listing.validation, ListValidation(directory, validation, trains.names, &listing.left_out));
  }
  PS_ASSIGN(const std::vector<std::string> names, NamesIn(directory));
  for (const std::string& name : names) {
    if (name != kTrain && name != test && name != validation) {
      listing.left_out.push_back(name + (IsFolder(fs::path(directory) / name) ? "/" : ""));
    }
  }
  Shorten(&listing.left_out);
  listing.train = InTurns(trains.paths);
  listing.test = InTurns(tests);
  if (listing.test.count() == 0) {
    return Status::InvalidArgument(fmt::format(
        "data.directory \"{}\" has no pictures for tests; allowed: some in {}/CLASS/, or two of a "
        "class in train without such a folder",
        directory,
        test.empty() ? "test" : test));
  }
  listing.class_names = std::move(trains.names);
  return listing;
}

}  // namespace ps::worker
