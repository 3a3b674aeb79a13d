// What `psctl scale` and `psctl move` are told, from the words of the command line.

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "ps/base/text.h"
#include "ps/proto/limits.h"
#include "psctl/runs/fleet_command.h"

namespace ps::psctl {
namespace {

Status Wrong(std::string_view word, const std::string& why) {
  return Status::InvalidArgument(fmt::format(
      "scale wants changes as in: psctl scale workers=8, servers+=1, servers=2:1 or fast=4,slow=0; "
      "{}, "
      "got '{}'",
      why,
      Printable(word)));
}

bool ParseCount(std::string_view digits, uint32_t most, uint32_t* count) {
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, *count);
  return error == std::errc() && rest == end && *count <= most;
}

/// "2:1:1"
bool ParseShares(std::string_view text, std::vector<uint32_t>* shares) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    uint32_t share = 0;
    if (!ParseCount(text.substr(begin, end - begin), proto::kShareMax, &share) || share == 0) {
      return false;
    }
    shares->push_back(share);
    begin = end + 1;
  }
  return shares->size() <= proto::kShardsMax;
}

Result<proto::ScaleChange> ParseChange(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) {
    return Wrong(word, "each has '='");
  }
  proto::ScaleChange change;
  std::string_view name = word.substr(0, equals);
  const std::string_view digits = word.substr(equals + 1);
  const char last = name.empty() ? '\0' : name.back();
  // A type may end with "-": "spot-=2" is read as fewer spot workers.
  change.is_relative = last == '+' || last == '-';
  if (change.is_relative) {
    name.remove_suffix(1);
  }
  if (name.empty()) {
    return Wrong(word, "a type of worker, 'workers' or 'servers' stands before the '='");
  }
  change.is_servers = name == "servers";
  change.type = name == "workers" || change.is_servers ? "" : std::string(name);
  if (digits.find(':') != std::string_view::npos) {
    if (!change.is_servers || change.is_relative || !ParseShares(digits, &change.shares)) {
      return Wrong(
          word,
          fmt::format(
              "only servers= has shares, whole numbers from 1 to {} for up to {} servers",
              proto::kShareMax,
              proto::kShardsMax));
    }
    change.count = static_cast<int32_t>(change.shares.size());
    return change;
  }
  uint32_t count = 0;
  if (!ParseCount(digits, proto::kSeatsMax, &count)) {
    return Wrong(word, fmt::format("a count is a whole number up to {}", proto::kSeatsMax));
  }
  change.count = static_cast<int32_t>(count) * (last == '-' ? -1 : 1);
  return change;
}

}  // namespace

Status ParseScale(const std::vector<std::string>& words, ScaleCommand* command) {
  for (const std::string& word : words) {
    if (word.find('=') == std::string::npos) {
      if (!command->job.empty()) {
        return Wrong(word, "one job can be named");
      }
      command->job = word;
      continue;
    }
    for (size_t begin = 0; begin <= word.size();) {
      const size_t end = std::min(word.find(',', begin), word.size());
      PS_ASSIGN(
          proto::ScaleChange change,
          ParseChange(std::string_view(word).substr(begin, end - begin)));
      command->changes.push_back(std::move(change));
      begin = end + 1;
    }
  }
  if (command->changes.empty()) {
    return Wrong(command->job, "there is none");
  }
  return Status::Ok();
}

Result<proto::ScaleChange> ParseMove(const std::string& tensor, const std::string& server) {
  proto::ScaleChange change;
  change.tensor = tensor;
  const size_t colon = tensor.rfind(':');
  uint32_t number = 0;
  if (colon != std::string::npos &&
      ParseCount(std::string_view(tensor).substr(colon + 1), INT32_MAX, &number)) {
    change.tensor.resize(colon);
    change.chunk = static_cast<int32_t>(number);
  }
  if (change.tensor.empty() || change.tensor.size() > proto::kNameBytesMax) {
    return Status::InvalidArgument(fmt::format(
        "move wants the name of a tensor, as in: psctl move fc1.weight 1, or fc1.weight:2 for one "
        "of its chunks; got '{}'",
        Printable(tensor)));
  }
  change.count = -1;
  if (server != "any") {
    if (!ParseCount(server, proto::kShardsMax, &number)) {
      return Status::InvalidArgument(fmt::format(
          "move wants the number of a server, or any, as in: psctl move {} 1; got '{}'",
          Printable(tensor),
          Printable(server)));
    }
    change.count = static_cast<int32_t>(number);
  }
  return change;
}

}  // namespace ps::psctl
