// Prints what is generated from configs/*.fbs. Build-tree tool; not installed.

#include <cstdio>
#include <string>
#include <string_view>

#include "ps/proto/files/generated_files.h"

int main(int argc, char** argv) {
  const std::string_view what = argc >= 2 ? argv[1] : "";
  std::string text;
  if (what == "--manual" && argc == 2) {
    text = ps::proto::JobManual();
  } else if (what == "--json-schema" && argc == 3) {
    text = ps::proto::JsonSchemaOf(argv[2]);
  }
  if (text.empty()) {
    std::fputs(
        "usage: schema_tool --json-schema job|catalog|profile|plan\n"
        "       schema_tool --manual\n",
        stderr);
    return 2;
  }
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
