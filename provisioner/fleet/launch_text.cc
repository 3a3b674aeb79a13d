#include "provisioner/fleet/launch_text.h"

#include <array>
#include <utility>

namespace ps::provisioner {

std::string FillLaunchText(std::string_view text, std::string_view role, uint32_t index) {
  const std::string number = std::to_string(index);
  const std::array<std::pair<std::string_view, std::string>, 3> values = {{
      {"{name}", std::string(role) + number},
      {"{role}", std::string(role)},
      {"{index}", number},
  }};
  std::string filled;
  while (!text.empty()) {
    size_t taken = 1;
    std::string_view part = text.substr(0, 1);
    for (const auto& [key, value] : values) {
      if (text.starts_with(key)) {
        taken = key.size();
        part = value;
      }
    }
    filled += part;
    text.remove_prefix(taken);
  }
  return filled;
}

std::vector<std::string> LaunchWords(
    std::string_view prefix, std::string_view role, uint32_t index) {
  std::vector<std::string> words;
  while (true) {
    const size_t begin = prefix.find_first_not_of(" \t");
    if (begin == std::string_view::npos) {
      return words;
    }
    prefix.remove_prefix(begin);
    const std::string_view word = prefix.substr(0, prefix.find_first_of(" \t"));
    words.push_back(FillLaunchText(word, role, index));
    prefix.remove_prefix(word.size());
  }
}

}  // namespace ps::provisioner
