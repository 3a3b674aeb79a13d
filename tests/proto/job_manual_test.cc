#include "ps/proto/job_manual.h"

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

TEST(JobManualTest, TheCommittedJsonSchemaIsCurrent) {
  EXPECT_EQ(FileText("configs/job.schema.json"), JobJsonSchema())
      << "run: job_schema_tool --json-schema > configs/job.schema.json";
}

TEST(JobManualTest, TheCommittedReferenceIsCurrent) {
  EXPECT_EQ(FileText("docs/config.md"), JobManual())
      << "run: job_schema_tool --manual > docs/config.md";
}

TEST(JobManualTest, EveryRowHasAMeaning) {
  EXPECT_EQ(JobManual().find("|  |\n"), std::string::npos);
}

}  // namespace
}  // namespace ps::proto
