#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ps/base/unique_fd.h"

namespace ps::run {

/// A connection to a port of this machine, on which a test can say anything. Closed with its owner.
inline UniqueFd Connect(uint32_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{20, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fd.Reset();
  }
  return fd;
}

inline bool Say(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

/// All that comes until the other side closes.
inline std::string Hear(int fd) {
  std::string text;
  char piece[4096];
  for (ssize_t n = ::recv(fd, piece, sizeof piece, 0); n > 0;
       n = ::recv(fd, piece, sizeof piece, 0)) {
    text.append(piece, static_cast<size_t>(n));
  }
  return text;
}

struct RawReply {
  int status = 0;  // 0: no reply
  std::string head;
  std::string body;
};

/// One request as it is written, and the reply to it, up to its Content-Length or the end.
inline RawReply Exchange(uint32_t port, std::string_view request) {
  const UniqueFd fd = Connect(port);
  if (!fd.is_open() || !Say(fd.get(), request)) {
    return {};
  }
  std::string text;
  size_t wanted = std::string::npos;
  size_t end = std::string::npos;
  char piece[16384];
  while (text.size() < wanted) {
    const ssize_t n = ::recv(fd.get(), piece, sizeof piece, 0);
    if (n <= 0) {
      break;
    }
    text.append(piece, static_cast<size_t>(n));
    if (end == std::string::npos && (end = text.find("\r\n\r\n")) != std::string::npos) {
      const size_t length = text.find("Content-Length:");
      if (length < end) {
        wanted = end + 4 + std::strtoul(text.c_str() + length + 15, nullptr, 10);
      }
    }
  }
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) {
    return {};
  }
  return {std::atoi(text.c_str() + 9), text.substr(0, end), text.substr(end + 4)};
}

/// `key` empty: none is sent. `body` not empty: it is a POST of JSON.
inline RawReply Fetch(
    uint32_t port, std::string_view path, std::string_view key, std::string_view body = "") {
  std::string request = std::string(body.empty() ? "GET " : "POST ");
  request += std::string(path) + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
             "\r\nConnection: close\r\n";
  if (!key.empty()) {
    request += "Authorization: Bearer " + std::string(key) + "\r\n";
  }
  if (!body.empty()) {
    request +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return Exchange(port, request + "\r\n" + std::string(body));
}

}  // namespace ps::run
