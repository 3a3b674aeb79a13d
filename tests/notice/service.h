#pragma once

#include <string>

#include "tests/http/server_process.h"

namespace ps::notice {

/// The small server that speaks as the three metadata services do.
inline const ServerProcess& Service() {
  static const ServerProcess server({"python3", "tests/notice/metadata_server.py"});
  return server;
}

/// Where a machine of a provider asks, "PROVIDER-STATE" or "PROVIDER-STATE.NUMBER".
inline std::string UrlOf(const std::string& machine) {
  return "http://127.0.0.1:" + std::to_string(Service().port()) + "/" + machine;
}

}  // namespace ps::notice
