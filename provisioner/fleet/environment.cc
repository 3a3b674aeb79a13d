#include "provisioner/fleet/environment.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace ps::provisioner {
namespace {

constexpr std::array<std::string_view, 9> kSecretWords = {
    "ACCESS_KEY",
    "API_KEY",
    "AUTHORIZATION",
    "CREDENTIAL",
    "PASSWD",
    "PASSWORD",
    "PRIVATE_KEY",
    "SECRET",
    "TOKEN"};

constexpr std::array<std::string_view, 11> kSlurmVariables = {
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "OMP_NUM_THREADS",
    "PATH",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER"};

std::string_view NameOf(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

}  // namespace

bool IsCredential(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return upper.starts_with("AWS_") ||
         std::ranges::any_of(kSecretWords, [&upper](std::string_view word) {
           return upper.find(word) != std::string::npos;
         });
}

std::vector<std::string> WithoutCredentials(const char* const* environment) {
  std::vector<std::string> kept;
  for (; *environment != nullptr; ++environment) {
    if (!IsCredential(NameOf(*environment))) {
      kept.emplace_back(*environment);
    }
  }
  return kept;
}

std::string SlurmExport(const char* const* environment) {
  std::vector<std::string> names;
  for (; *environment != nullptr; ++environment) {
    const std::string_view name = NameOf(*environment);
    if (std::ranges::find(kSlurmVariables, name) != kSlurmVariables.end()) {
      names.emplace_back(name);
    }
  }
  std::ranges::sort(names);
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ",") + name;
  }
  return text.empty() ? "NIL" : text;
}

}  // namespace ps::provisioner
