// Prints what is generated from configs/job.fbs. Build-tree tool; not installed.

#include <cstdio>
#include <string_view>

#include "ps/proto/job_manual.h"

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what != "--json-schema" && what != "--manual") {
    std::fputs("usage: job_schema_tool --json-schema | --manual\n", stderr);
    return 2;
  }
  const std::string text = what == "--manual" ? ps::proto::JobManual() : ps::proto::JobJsonSchema();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
