#include "psctl/catalog_file.h"

#include <filesystem>
#include <system_error>

#include "ps/base/file.h"

namespace ps::psctl {
namespace {

constexpr const char* kDefaultCatalog = "configs/catalog/aws.json";

}  // namespace

Result<std::string> FindCatalog(const std::string& given) {
  if (!given.empty()) {
    return given;
  }
  std::error_code error;
  if (std::filesystem::is_regular_file(kDefaultCatalog, error)) {
    return std::string(kDefaultCatalog);
  }
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (auto folder = program; folder.has_relative_path(); folder = folder.parent_path()) {
    const auto path = folder / kDefaultCatalog;
    if (std::filesystem::is_regular_file(path, error)) {
      return path.string();
    }
  }
  return Status::NotFound(
      std::string("no catalog: there is no ") + kDefaultCatalog + " here or above " +
      program.string() + "; name one, as in --catalog FILE");
}

Result<proto::Catalog> LoadCatalog(const std::string& given) {
  PS_ASSIGN(const std::string path, FindCatalog(given));
  PS_ASSIGN(const std::string text, ReadFile(path));
  return proto::ParseCatalog(text, path);
}

}  // namespace ps::psctl
