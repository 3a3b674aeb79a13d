#include "ps/base/host_port.h"

#include <fmt/core.h>

#include <charconv>

namespace ps {

Result<HostPort> ParseHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const std::string_view digits = text.substr(host.empty() ? 0 : colon + 1);
  const char* const digits_end = digits.data() + digits.size();
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits_end, port);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const bool has_brackets = host.find_first_of("[]") != std::string_view::npos;
  if (host.empty() || has_brackets || error != std::errc() || end != digits_end || port == 0 ||
      port > 65535) {
    return Status::InvalidArgument(
        fmt::format("'{}' is no address; write HOST:PORT, for example 127.0.0.1:4711", text));
  }
  return HostPort{std::string(host), port};
}

Result<HostPort> ParseListenAddress(std::string_view text) {
  const auto is_numeric = [](std::string_view host) {
    return host == "localhost" ||
           (host.find_first_of(".:") != std::string_view::npos &&
            host.find_first_not_of("0123456789abcdefABCDEF.:") == std::string_view::npos);
  };
  const bool is_ipv6 = text.find(':') != text.rfind(':') && !text.starts_with('[');
  if (is_numeric(text) && (is_ipv6 || text.find(':') == std::string_view::npos)) {
    return HostPort{std::string(text), 0};
  }
  Result<HostPort> address = ParseHostPort(text);
  if (!address.ok() || is_ipv6 || !is_numeric(address->host)) {
    return Status::InvalidArgument(fmt::format(
        "'{}' is no address of this machine; write it as 127.0.0.1, 127.0.0.1:8080 or [::1]:8080",
        text));
  }
  return address;
}

std::string FormatHostPort(const std::string& host, uint32_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}:{}", is_ipv6 ? "[" + host + "]" : host, port);
}

bool BindsAll(std::string_view host) {
  return host == "0.0.0.0" || host == "::";
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string ReachableHost(
    const std::string& listen, const std::string& advertise, const std::string& otherwise) {
  if (!advertise.empty()) {
    return advertise;
  }
  return BindsAll(listen) ? otherwise : listen;
}

}  // namespace ps
