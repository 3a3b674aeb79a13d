#include "ps/proto/files/generated_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace ps::proto {
namespace {

std::string FileText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(GeneratedFilesTest, TheCommittedJsonSchemasAreCurrent) {
  for (const std::string name : {"job", "catalog", "profile", "plan"}) {
    const std::string path = "configs/" + name + ".schema.json";
    EXPECT_EQ(FileText(path), JsonSchemaOf(name))
        << "run: schema_tool --json-schema " << name << " > " << path;
  }
  EXPECT_EQ(JsonSchemaOf("unknown"), "");
}

TEST(GeneratedFilesTest, TheCommittedReferenceIsCurrent) {
  EXPECT_EQ(FileText("docs/config.md"), JobManual())
      << "run: schema_tool --manual > docs/config.md";
}

TEST(GeneratedFilesTest, EveryRowHasAMeaning) {
  EXPECT_EQ(JobManual().find("|  |\n"), std::string::npos);
}

}  // namespace
}  // namespace ps::proto
