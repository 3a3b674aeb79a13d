#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "tests/tidy/cmake_reader.h"
#include "tests/tidy/rules.h"

namespace ps::tidy {
namespace {

constexpr std::array<std::string_view, 12> kTopLevel = {
    "ps",
    "worker",
    "kernels",
    "checkpoint",
    "provisioner",
    "run",
    "psctl",
    "configs",
    "tests",
    "docs",
    "python",
    "scripts"};

constexpr std::string_view kFoldersWithReadme[] = {
    "ps/base",
    "ps/process",
    "ps/http",
    "ps/aws",
    "ps/json",
    "ps/store",
    "ps/proto",
    "ps/proto/codec",
    "ps/proto/files",
    "ps/proto/job",
    "ps/proto/state",
    "ps/emulation",
    "ps/net",
    "ps/client",
    "ps/server",
    "ps/server/checkpoints",
    "ps/server/chunks",
    "ps/coordinator",
    "ps/coordinator/meters",
    "ps/coordinator/state",
    "ps/coordinator/checkpoints",
    "ps/coordinator/workers",
    "ps/coordinator/servers",
    "ps/coordinator/fleet",
    "checkpoint",
    "checkpoint/model",
    "checkpoint/remote",
    "checkpoint/storage",
    "kernels",
    "kernels/cpu",
    "kernels/cuda",
    "worker",
    "worker/data",
    "worker/data/store",
    "worker/model",
    "worker/script",
    "worker/shell",
    "worker/use",
    "provisioner",
    "provisioner/catalog",
    "provisioner/profile",
    "provisioner/model",
    "provisioner/planner",
    "provisioner/report",
    "provisioner/fleet",
    "provisioner/provider",
    "provisioner/fleet/kubernetes",
    "run",
    "run/report",
    "run/directory",
    "run/planning",
    "run/planning/capacity",
    "psctl",
    "psctl/cli",
    "psctl/view",
    "psctl/runs",
    "psctl/models",
    "psctl/plan",
    "psctl/remote",
    "configs",
    "tests",
    "tests/cuda_emulation",
    "tests/fuzz",
    "tests/sim",
    "tests/e2e",
    "tests/bench",
    "tests/tidy",
};

constexpr size_t kReadmeLinesMax = 70;

/// The words of a CMakeLists.txt, its own folder put in front: the paths that it could name.
void AddNamedPaths(const File& cmake, std::set<std::string>* paths) {
  const std::string folder(FolderOf(cmake.path));
  for (const CMakeCommand& command : ReadCommands(cmake.text)) {
    for (const std::string& word : command.words) {
      if (IsSource(word)) {
        paths->insert((std::filesystem::path(folder) / word).generic_string());
      }
    }
  }
}

}  // namespace

std::vector<Finding> CheckSourcesAreBuilt(const Tree& tree) {
  std::set<std::string> named;
  for (const File& file : tree) {
    if (IsCMake(file.path)) {
      AddNamedPaths(file, &named);
    }
  }
  std::vector<Finding> findings;
  for (const File& file : tree) {
    if (!IsSource(file.path) || named.count(file.path) != 0) {
      continue;
    }
    findings.push_back(
        {file.path,
         0,
         file.path.ends_with("_test.cc") ? "no CMakeLists.txt runs this test"
                                         : "no CMakeLists.txt builds this file"});
  }
  return findings;
}

std::vector<Finding> CheckReadmes(const Tree& tree) {
  std::vector<Finding> findings;
  for (const std::string_view folder : kFoldersWithReadme) {
    const std::string path = std::string(folder) + "/README.md";
    const File* readme = FindFile(tree, path);
    if (readme == nullptr) {
      findings.push_back({path, 0, "missing: what the folder is for, its files, its invariants"});
    } else if (Lines(readme->text).size() > kReadmeLinesMax) {
      findings.push_back({path, 0, "longer than a page"});
    }
  }
  return findings;
}

std::vector<Finding> CheckTopLevel(const Tree& tree) {
  std::vector<Finding> findings;
  for (const File& file : tree) {
    const std::string_view top = std::string_view(file.path).substr(0, file.path.find('/'));
    const bool is_known = std::find(kTopLevel.begin(), kTopLevel.end(), top) != kTopLevel.end();
    if ((IsCode(file.path) || NameOf(file.path) == "CMakeLists.txt") &&
        file.path != "CMakeLists.txt" && !is_known) {
      findings.push_back({file.path, 0, "outside the top-level folders of the architecture"});
    }
  }
  return findings;
}

std::vector<Finding> CheckFolders(const Tree& tree) {
  constexpr size_t kFilesMax = 40;
  std::map<std::string, size_t> counts;
  for (const File& file : tree) {
    if (IsCode(file.path)) {
      ++counts[std::string(FolderOf(file.path))];
    }
  }
  std::vector<Finding> findings;
  for (const auto& [folder, count] : counts) {
    if (count > kFilesMax) {
      findings.push_back(
          {folder, 0, std::to_string(count) + " files; at most " + std::to_string(kFilesMax)});
    }
  }
  return findings;
}

}  // namespace ps::tidy
