#include "ps/net/addresses.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>
#include <cstring>

#include "ps/base/host_port.h"
#include "ps/net/internal/socket.h"

namespace ps::net {
namespace {

using asio::ip::udp;

constexpr uint16_t kDiscardPort = 9;  // of a datagram that is never sent

/// Connecting a datagram socket sends nothing: it only asks the routes.
std::string SourceAddress(
    asio::io_context& io, const udp::endpoint& target, asio::error_code* error) {
  udp::socket socket(io);
  socket.connect(target, *error);
  const auto local = *error ? udp::endpoint() : socket.local_endpoint(*error);
  return *error ? "" : local.address().to_string();
}

/// Empty for loopback, link-local and other families.
std::string UsableAddress(const ifaddrs& entry, bool is_ipv6) {
  const int family = is_ipv6 ? AF_INET6 : AF_INET;
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != family ||
      (entry.ifa_flags & IFF_UP) == 0 || (entry.ifa_flags & IFF_LOOPBACK) != 0) {
    return "";
  }
  udp::endpoint endpoint;
  std::memcpy(
      endpoint.data(), entry.ifa_addr, is_ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  const asio::ip::address address = endpoint.address();
  const bool is_link_local = address.is_v6() && address.to_v6().is_link_local();
  return is_link_local ? "" : address.to_string();
}

}  // namespace

Result<std::string> AddressTowards(const std::string& host) {
  asio::io_context io;
  asio::error_code error;
  udp::resolver resolver(io);
  const auto targets = resolver.resolve(host, std::to_string(kDiscardPort), error);
  std::string address;
  for (const auto& target : targets) {
    address = SourceAddress(io, target.endpoint(), &error);
    if (!address.empty()) {
      return address;
    }
  }
  return Status(
      error ? ToStatus(error).code() : StatusCode::kUnavailable,
      "this machine has no address that reaches " + host + ": " + error.message() +
          "; look at its name and at the network, or say with --listen which address to bind");
}

std::string OwnAddress(bool is_ipv6, const std::string& otherwise) {
  asio::io_context io;
  asio::error_code error;
  // Addresses for documentation (RFC 5737 and 3849): nobody has them, so the default route is
  // taken.
  const char* const somewhere = is_ipv6 ? "2001:db8::1" : "192.0.2.1";
  std::string address =
      SourceAddress(io, udp::endpoint(asio::ip::make_address(somewhere), kDiscardPort), &error);
  if (!address.empty() && !IsLoopback(address)) {
    return address;
  }
  ifaddrs* entries = nullptr;
  if (::getifaddrs(&entries) != 0) {
    return otherwise;
  }
  address.clear();
  for (const ifaddrs* entry = entries; entry != nullptr && address.empty();
       entry = entry->ifa_next) {
    address = UsableAddress(*entry, is_ipv6);
  }
  ::freeifaddrs(entries);
  return address.empty() ? otherwise : address;
}

std::string UnreachableText(
    const std::string& what, const std::string& host, uint32_t port, const Status& why) {
  return "cannot reach " + what + " at " + FormatHostPort(host, port) + ": " +
         std::string(why.message()) + "; trying on" +
         (IsLoopback(host)
              ? ". " + host +
                    " is this machine itself: if the run is on another one, it has to listen at an "
                    "address of that machine (run.listen in the job file)"
              : ". Does the run go on, and does a firewall let this machine through to the port?");
}

}  // namespace ps::net
