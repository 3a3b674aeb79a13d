#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "tests/psctl/command_fixture.h"

namespace ps::psctl {

inline constexpr const char* kProfilePath = "configs/profiles/resnet110_cifar100_spotdnn.json";
inline constexpr const char* kCatalogPath = "configs/catalog/spotdnn_paper.json";

class PlanFixture : public CommandFixture {
 protected:
  /// plan or predict with the shipped profile and the paper's catalog.
  int RunWith(const std::string& command, std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        command, "--profile", kProfilePath, "--catalog", kCatalogPath};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(std::move(arguments));
  }

  std::string ReadAll(const std::string& path) const {
    Result<std::string> text = ReadFile(path);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? *text : "";
  }
};

}  // namespace ps::psctl
