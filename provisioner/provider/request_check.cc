#include "provisioner/provider/request_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "ps/base/text.h"
#include "ps/crypto/sha256.h"

namespace ps::provisioner {
namespace {

constexpr size_t kNameMax = 63;
constexpr size_t kTagsMax = 40;  // EC2 takes 50, Compute Engine 64; some are the provider's own
constexpr size_t kPoolsMax = 100;

bool IsSmall(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

bool IsToken(std::string_view text) {
  return !text.empty() && text.size() <= kNameMax && text.front() >= 'a' && text.front() <= 'z' &&
         text.back() != '-' && std::all_of(text.begin(), text.end(), IsSmall);
}

bool IsTagText(std::string_view text) {
  return text.size() <= kNameMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsSmall(c) || c == '_'; });
}

/// Lengths in front, so that no two lists of texts have one encoding.
class Digest {
 public:
  void Add(std::string_view text) { bytes_ += fmt::format("{}:{}", text.size(), text); }

  std::string Hex(size_t digits) const {
    return crypto::HexOf(crypto::Sha256Of(std::as_bytes(std::span(bytes_)))).substr(0, digits);
  }

 private:
  std::string bytes_;
};

void AddSetup(const MachineSetup& setup, Digest* digest) {
  for (const std::string* text :
       {&setup.image,
        &setup.subnet,
        &setup.security_group,
        &setup.key_name,
        &setup.role,
        &setup.user_data}) {
    digest->Add(*text);
  }
  digest->Add(fmt::format("{} {}", setup.disk_gib, setup.run_max.count()));
  if (setup.keeps_disk) {
    digest->Add("keeps disk");
  }
}

}  // namespace

CallEnd Refused(std::string message) {
  return {.fault = CallFault::kRefused, .message = std::move(message)};
}

CallEnd CheckRequest(const RentRequest& request) {
  if (!IsToken(request.token)) {
    return Refused(fmt::format(
        "cannot rent: the token \"{}\" has to be 1 to 63 of a-z, 0-9 and \"-\", with a letter in "
        "front",
        Printable(Clip(request.token, 80))));
  }
  if (request.pools.empty() || request.pools.size() > kPoolsMax) {
    return Refused(fmt::format(
        "cannot rent: 1 to {} pools are needed, {} are named", kPoolsMax, request.pools.size()));
  }
  for (const Pool& pool : request.pools) {
    if (pool.type.empty() || pool.zone.empty()) {
      return Refused("cannot rent: a pool without type or zone");
    }
    if (pool.is_spot != request.pools.front().is_spot) {
      return Refused(fmt::format(
          "cannot rent: {} and {} in one request; ask for spot and for stable machines apart",
          PoolText(request.pools.front()),
          PoolText(pool)));
    }
  }
  if (request.tags.size() > kTagsMax) {
    return Refused(
        fmt::format("cannot rent: {} tags, at most {} are taken", request.tags.size(), kTagsMax));
  }
  for (const auto& [name, value] : request.tags) {
    if (name.empty() || name.front() < 'a' || name.front() > 'z' || !IsTagText(name) ||
        !IsTagText(value) || name.starts_with("spotps-own-")) {
      return Refused(fmt::format(
          "cannot rent: the tag {}={} is none; names and values are of a-z, 0-9, \"-\" and \"_\", "
          "names begin "
          "with a letter and not with spotps-own-",
          Printable(Clip(name, 80)),
          Printable(Clip(value, 80))));
    }
  }
  return {};
}

std::string RequestDigest(const RentRequest& request) {
  Digest digest;
  for (const Pool& pool : request.pools) {
    digest.Add(pool.type);
    digest.Add(pool.zone);
    digest.Add(pool.is_spot ? "spot" : "stable");
  }
  digest.Add("setup");
  AddSetup(request.setup, &digest);
  for (const auto& [name, value] : request.tags) {
    digest.Add(name);
    digest.Add(value);
  }
  return digest.Hex(40);
}

std::string SetupDigest(const MachineSetup& setup) {
  Digest digest;
  AddSetup(setup, &digest);
  return digest.Hex(20);
}

void TakeOwnTags(Machine* machine) {
  if (const auto token = machine->tags.find(std::string(kTokenTag)); token != machine->tags.end()) {
    machine->token = token->second;
  }
  std::erase_if(
      machine->tags, [](const auto& tag) { return tag.first.starts_with("spotps-own-"); });
}

bool HasAllTags(
    const std::map<std::string, std::string>& tags,
    const std::map<std::string, std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& tag) {
    const auto it = tags.find(tag.first);
    return it != tags.end() && it->second == tag.second;
  });
}

std::vector<std::string> PartsOf(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string> parts;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    part.remove_prefix(std::min(part.find_first_not_of(kBlanks), part.size()));
    part = part.substr(0, part.find_last_not_of(kBlanks) + 1);
    if (!part.empty()) {
      parts.emplace_back(part);
    }
  }
  return parts;
}

}  // namespace ps::provisioner
