#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"

namespace ps::worker {

inline constexpr uint64_t kPictureFilesMax = uint64_t{1} << 24;
inline constexpr uint64_t kPictureClassesMax = 65'536;

/// Picture files and their classes, in step.
struct LabeledPaths {
  std::vector<std::string> paths;
  std::vector<uint32_t> labels;

  size_t count() const { return paths.size(); }

  /// Keeps the first so many.
  void KeepFirst(uint64_t count);
};

/// What lies in folders that are named after classes.
struct ClassFolders {
  std::vector<std::string> names;               // of the classes, ascending by bytes
  std::vector<std::vector<std::string>> paths;  // of each, ascending by their names below it
};

/// The first of each class, then the second of each, and so on: the front of it has all classes.
/// Labels are numbers in `classes`.
LabeledPaths InTurns(const std::vector<std::vector<std::string>>& classes);

// A picture is a file whose name ends in .png, .jpg or .jpeg, in letters of any case. Folders below
// that of a class belong to the class, as in torchvision's ImageFolder, and links are followed, to
// kFolderDepthMax levels. What begins with a point is passed over. Other files are no data: their
// names go to `left_out`, of which there are at most kLeftOutMax and one that counts the others.
// Errors: kIo, a folder can't be listed; kInvalidArgument, too deep or too many.

inline constexpr int kFolderDepthMax = 8;
inline constexpr size_t kLeftOutMax = 20;

/// Whether `directory` has a folder train.
bool HasTrainFolder(const std::string& directory);

/// The pictures in and below a folder, by their names within it, ascending by bytes.
Result<std::vector<std::string>> ListPictures(
    const std::string& folder, std::vector<std::string>* left_out);

/// Each folder in `folder` is a class. `root` is what names in `left_out` are below. Errors: also
/// kInvalidArgument, a name that classes.txt could not have in a line.
Result<ClassFolders> ListClassFolders(
    const std::string& root, const std::string& folder, std::vector<std::string>* left_out);

/// test, val or validation: the first of them in `directory` that has folders of classes, or, if
/// none has, the first that is there: a folder test often has pictures that nobody has labelled.
/// Where a folder for validation is named: test, if it has folders of classes. Empty: there is
/// none.
std::string TestFolderOf(const std::string& directory, const std::string& validation = "");

/// The folder for validation that lies in `directory`, by its usual names, with folders of classes,
/// and is not the one for tests. Empty: there is none.
std::string UnusedFolderOf(const std::string& directory);

/// The pictures of a data set, in turns.
struct PictureListing {
  std::vector<std::string> class_names;  // ascending by bytes
  LabeledPaths train;
  LabeledPaths test;
  LabeledPaths validation;
  std::vector<std::string> left_out;
};

/// `directory` has train/CLASS/ and TestFolderOf/CLASS/; without the latter the tests are the last
/// pictures of each class in train by their names: `test_share` of them, rounded, at least one
/// where there are two. `validation`: the folder of those that epochs are measured on, or empty.
/// Errors: kNotFound, no folder train, or none for validation; kInvalidArgument, fewer than two
/// classes or more than kPictureClassesMax, a class that has no pictures, a class of the others
/// that training lacks, no pictures for tests or for validation.
Result<PictureListing> ListPictureFolders(
    const std::string& directory, double test_share, const std::string& validation = "");

}  // namespace ps::worker
