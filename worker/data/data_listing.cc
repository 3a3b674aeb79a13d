#include "worker/data/data_listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPacked = ".gz";

/// Names of files for people, without their ends, in small letters.
constexpr std::array<std::string_view, 14> kForPeople = {
    "readme",
    "read_me",
    "read-me",
    "license",
    "licence",
    "copying",
    "notice",
    "authors",
    "changelog",
    "checksums",
    "md5sums",
    "sha1sums",
    "sha256sums",
    "sha512sums"};

bool IsForPeople(std::string_view stem) {
  std::string small(stem);
  std::ranges::transform(
      small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(kForPeople, small) != kForPeople.end();
}

/// `name` without `end` and .gz; empty: it is not called so.
std::string_view StemOf(std::string_view name, std::string_view prefix, std::string_view end) {
  if (name.ends_with(kPacked)) {
    name.remove_suffix(kPacked.size());
  }
  const bool is_called_so = name.starts_with(prefix) && name.ends_with(end);
  return is_called_so ? name.substr(0, name.size() - end.size()) : std::string_view();
}

Status IsThereTwice(const std::string& plain) {
  return Status::InvalidArgument(fmt::format(
      "data.directory has {} and the same packed, {}{}: what is in them would count twice, or one "
      "of them is out of date; allowed: one of the two, so move the other one away",
      plain,
      plain,
      kPacked));
}

Status CheckPackedOnce(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (std::ranges::find(paths, path + std::string(kPacked)) != paths.end()) {
      return IsThereTwice(path);
    }
  }
  return Status::Ok();
}

}  // namespace

Result<DataListing> ListDataFiles(
    const std::string& directory, std::string_view prefix, std::string_view end) {
  DataListing listing;
  std::error_code error;
  for (fs::directory_iterator it(directory, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::string_view stem = StemOf(name, prefix, end);
    std::error_code ignored;  // what can't be looked at is an error when it is read
    if (stem.empty() || stem.front() == '.' || it->is_directory(ignored)) {
      continue;
    }
    if (IsForPeople(stem)) {
      listing.left_out.push_back(name);
    } else {
      listing.paths.push_back(it->path().string());
    }
  }
  if (error) {
    return Status::Io(
        fmt::format("data.directory \"{}\" cannot be listed: {}", directory, error.message()));
  }
  std::ranges::sort(listing.paths);
  std::ranges::sort(listing.left_out);
  PS_TRY(CheckPackedOnce(listing.paths));
  return listing;
}

Result<std::string> FindDataFile(const std::string& directory, const std::string& name) {
  const std::string plain = (fs::path(directory) / name).string();
  const std::string packed = plain + std::string(kPacked);
  std::error_code ignored;  // a folder that cannot be read is a file that cannot be found
  const bool is_plain = fs::exists(plain, ignored);
  const bool is_packed = fs::exists(packed, ignored);
  if (is_plain && is_packed) {
    return IsThereTwice(plain);
  }
  if (!is_plain && !is_packed) {
    return Status::NotFound(
        fmt::format("data.directory \"{}\" has no {} and no {}{}", directory, name, name, kPacked));
  }
  return is_plain ? plain : packed;
}

uint64_t StoredBytes(const std::string& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

}  // namespace ps::worker
