#include "run/page/page_access.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "ps/crypto/worker_token.h"

namespace ps::run {
namespace {

constexpr std::string_view kBearer = "bearer ";

std::string MachineName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(
      lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

/// Schemes have no case (RFC 9110).
bool HasKey(std::string_view authorization, std::string_view key) {
  return Lower(authorization.substr(0, kBearer.size())) == kBearer &&
         crypto::EqualInConstantTime(authorization.substr(kBearer.size()), key);
}

bool IsDigits(std::string_view text, std::string_view others) {
  return !text.empty() && std::ranges::all_of(text, [others](char c) {
    return (c >= '0' && c <= '9') || others.find(c) != std::string_view::npos;
  });
}

}  // namespace

bool IsOwnHost(std::string_view host, std::string_view machine_name) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end != std::string_view::npos && IsDigits(host.substr(1, end - 1), "abcdefABCDEF:.") &&
           (end + 1 == host.size() || (host[end + 1] == ':' && IsDigits(host.substr(end + 2), "")));
  }
  const size_t colon = host.find(':');
  if (colon != std::string_view::npos && !IsDigits(host.substr(colon + 1), "")) {
    return false;
  }
  const std::string name = Lower(host.substr(0, colon));
  // Names of other machines have letters in their last part (RFC 3696).
  return IsDigits(name, ".") || name == "localhost" ||
         (!machine_name.empty() && name == Lower(machine_name));
}

PageAccess::Refusal PageAccess::Check(const PageRequest& request, bool wants_key) const {
  static const std::string kMachine = MachineName();
  // A name that somebody leads here has no key with it.
  const bool has_key = HasKey(request.authorization, key_);
  if (!IsOwnHost(request.host, kMachine) && !(wants_key && has_key)) {
    return {
        421,
        "this page answers at an address or localhost, not at a name that others could lead here; "
        "open it by the link that psctl page prints\n"};
  }
  if (!request.origin.empty() && request.origin != "http://" + request.host) {
    return {403, "a page of another origin asks\n"};
  }
  if (wants_key && !has_key) {
    return {
        401,
        "the key is missing or another run's: open the whole link that psctl page prints, or send "
        "the header \"Authorization: Bearer KEY\" with the key in page.key of the run directory\n"};
  }
  return {};
}

std::string PageLink(const HostPort& address, std::string_view key) {
  const std::string host =
      BindsAll(address.host) ? (address.host == "::" ? "::1" : "127.0.0.1") : address.host;
  return "http://" + FormatHostPort(host, address.port) + "/#" + std::string(key);
}

}  // namespace ps::run
