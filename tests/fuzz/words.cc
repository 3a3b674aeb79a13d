#include <string>
#include <string_view>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/host_port.h"
#include "ps/process/flags.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {

bool FuzzHostPort(std::span<const uint8_t> input) {
  const Result<HostPort> parsed = ParseHostPort(Text(input));
  if (parsed.ok()) {
    PS_CHECK(!parsed->host.empty() && parsed->port < 65536) << parsed->host << " " << parsed->port;
    const Result<HostPort> again = ParseHostPort(FormatHostPort(parsed->host, parsed->port));
    PS_CHECK(again.ok()) << again.status();
    PS_CHECK(again->host == parsed->host && again->port == parsed->port);
  }
  return parsed.ok();
}

bool FuzzFlags(std::span<const uint8_t> input) {
  std::vector<std::string> words = {"program"};
  std::string_view text = Text(input);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  std::vector<const char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(word.c_str());
  }
  Manual manual;
  manual.program = "program";
  manual.sections.emplace_back();
  for (const char* const name : {"--name", "--token-file", "--port"}) {
    manual.sections.back().flags.push_back({name, "VALUE", "A value."});
  }
  const Result<Flags> flags =
      Flags::Parse(static_cast<int>(arguments.size()), arguments.data(), manual);
  if (flags.ok()) {
    const Result<uint64_t> port = flags->Number("port", 1, 65535);
    PS_CHECK(!port.ok() || (*port >= 1 && *port <= 65535));
    PS_CHECK(flags->Has("name") == flags->Text("name").ok());
  }
  return flags.ok();
}

}  // namespace ps::fuzz
