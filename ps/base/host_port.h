#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ps/base/status.h"

namespace ps {

/// "10.0.0.7:4711" or "[::1]:4711".
struct HostPort {
  std::string host;
  uint32_t port = 0;
};

/// Errors: kInvalidArgument.
Result<HostPort> ParseHostPort(std::string_view text);

/// An address of this machine to bind, with or without a port: "127.0.0.1", "127.0.0.1:8080",
/// "::1",
/// "[::1]:8080", "localhost". Port 0: any free one. Names are not looked up. Errors:
/// kInvalidArgument.
Result<HostPort> ParseListenAddress(std::string_view text);

/// "127.0.0.1:80", "[::1]:80".
std::string FormatHostPort(const std::string& host, uint32_t port);

/// Whether a program that binds `host` is reached at each address of its machine, so that `host`
/// itself is nowhere.
bool BindsAll(std::string_view host);

/// Whether `host` is the machine that asks, whichever it is: 127.0.0.1, ::1, localhost.
bool IsLoopback(std::string_view host);

/// Where others reach what binds `listen`: `advertise` when there is one, else `listen`, else, when
/// that binds everything, `otherwise`.
std::string ReachableHost(
    const std::string& listen, const std::string& advertise, const std::string& otherwise);

}  // namespace ps
