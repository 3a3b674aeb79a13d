#include "run/page/http_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "ps/base/unique_fd.h"

namespace ps::run {
namespace {

constexpr unsigned kThreads = 2;
/// Waiting for the page's threads to be scheduled costs nothing; more than this is a mistake.
constexpr int kBacklog = 64;
/// One machine of a network, which can say a byte at a time for ever, does not keep the rest out.
constexpr unsigned kAddressesToFillIt = 4;
/// So many times the longest body close a connection.
constexpr size_t kTimesTooLong = 16;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

std::optional<SocketAddress> SocketAddressOf(const HostPort& address) {
  const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
  SocketAddress result;
  sockaddr_in v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<uint16_t>(address.port));
    std::memcpy(&result.storage, &v4, sizeof v4);
    result.size = sizeof v4;
    return result;
  }
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<uint16_t>(address.port));
    std::memcpy(&result.storage, &v6, sizeof v6);
    result.size = sizeof v6;
    return result;
  }
  return std::nullopt;
}

Status Unbound(const HostPort& address) {
  return Status::Unavailable(fmt::format(
      "cannot listen at {}: {}", FormatHostPort(address.host, address.port), std::strerror(errno)));
}

Result<UniqueFd> Listen(const HostPort& address) {
  const std::optional<SocketAddress> socket_address = SocketAddressOf(address);
  if (!socket_address) {
    return Status::InvalidArgument(fmt::format("'{}' is no number of an address", address.host));
  }
  UniqueFd fd(
      ::socket(socket_address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (!fd.is_open() ||
      // The port of a coordinator that was killed is to be had at once.
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(
          fd.get(),
          reinterpret_cast<const sockaddr*>(&socket_address->storage),
          socket_address->size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return Unbound(address);
  }
  return fd;
}

uint32_t PortOf(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return 0;
  }
  const void* const at = &storage;
  return storage.ss_family == AF_INET6 ? ntohs(static_cast<const sockaddr_in6*>(at)->sin6_port)
                                       : ntohs(static_cast<const sockaddr_in*>(at)->sin_port);
}

/// Signals are the main thread's: what is started while this lives gets none.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// A request while it comes in.
struct Incoming {
  std::string body;  // empty where there are too many bytes
  size_t bytes = 0;
};

std::string HeaderOf(MHD_Connection* connection, const char* name) {
  const char* const value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

MHD_Result AddQuery(void* query, MHD_ValueKind /*kind*/, const char* name, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(query))[name] = value == nullptr ? "" : value;
  return MHD_YES;
}

MHD_Result SendReply(MHD_Connection* connection, const PageReply& reply) {
  auto* const kept = new std::shared_ptr<const std::string>(reply.body);
  MHD_Response* const response = MHD_create_response_from_buffer_with_free_callback_cls(
      (*kept)->size(),
      // The library only reads it, and asks for no const pointer.
      const_cast<char*>((*kept)->data()),
      [](void* owned) { delete static_cast<std::shared_ptr<const std::string>*>(owned); },
      kept);
  if (response == nullptr) {
    delete kept;
    return MHD_NO;
  }
  const std::pair<const char*, const char*> headers[] = {
      {"Content-Type", reply.type.c_str()},
      {"Cache-Control", "no-store"},
      // Nothing but what this server sends is loaded, run, asked or shown in a frame of others.
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"}};
  for (const auto& [name, value] : headers) {
    MHD_add_response_header(response, name, value);
  }
  if (reply.status == 401) {
    MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
  }
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(reply.status), response);
  MHD_destroy_response(response);
  return queued;
}

}  // namespace

struct HttpServerCalls {
  /// Called first with the headers, then for each piece of the body, then once more.
  static MHD_Result OnRequest(
      void* self,
      MHD_Connection* connection,
      const char* url,
      const char* method,
      const char* /*version*/,
      const char* upload,
      size_t* upload_size,
      void** state) {
    const auto* const server = static_cast<const HttpServer*>(self);
    const PageReply too_long = PageReply::Text(
        413, fmt::format("a request's body has at most {} bytes\n", server->limits_.body_bytes));
    if (*state == nullptr) {
      *state = new Incoming;
      const std::string length = HeaderOf(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
      const bool is_long = std::strtoull(length.c_str(), nullptr, 10) > server->limits_.body_bytes;
      return is_long ? SendReply(connection, too_long) : MHD_YES;
    }
    auto* const incoming = static_cast<Incoming*>(*state);
    if (*upload_size > 0) {
      incoming->bytes += *upload_size;
      if (incoming->bytes > server->limits_.body_bytes) {
        // The rest is read and forgotten, so that whoever says a little too much hears why.
        incoming->body.clear();
        if (incoming->bytes > kTimesTooLong * server->limits_.body_bytes) {
          return MHD_NO;
        }
      } else {
        incoming->body.append(upload, *upload_size);
      }
      *upload_size = 0;
      return MHD_YES;
    }
    const std::string_view verb(method);
    if (incoming->bytes > server->limits_.body_bytes) {
      return SendReply(connection, too_long);
    }
    if (verb != "GET" && verb != "HEAD" && verb != "POST") {
      return SendReply(connection, PageReply::Text(405, "GET or POST\n"));
    }
    PageRequest request;
    request.method = verb == "HEAD" ? "GET" : verb;
    request.path = url;
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, AddQuery, &request.query);
    request.host = HeaderOf(connection, MHD_HTTP_HEADER_HOST);
    request.origin = HeaderOf(connection, MHD_HTTP_HEADER_ORIGIN);
    request.authorization = HeaderOf(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    request.content_type = HeaderOf(connection, MHD_HTTP_HEADER_CONTENT_TYPE);
    request.body = std::move(incoming->body);
    return SendReply(connection, server->handler_(request));
  }

  static void OnEnd(
      void* /*self*/,
      MHD_Connection* /*connection*/,
      void** state,
      MHD_RequestTerminationCode /*why*/) {
    delete static_cast<Incoming*>(*state);
    *state = nullptr;
  }
};

Result<std::unique_ptr<HttpServer>> HttpServer::Start(
    const HostPort& address, const Limits& limits, Handler handler) {
  PS_ASSIGN(UniqueFd listener, Listen(address));
  std::unique_ptr<HttpServer> server(new HttpServer(limits, std::move(handler)));
  server->address_ = {address.host, PortOf(listener.get())};
  const SignalsBlocked blocked;
  server->daemon_ = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL,
      0,
      nullptr,
      nullptr,
      &HttpServerCalls::OnRequest,
      server.get(),
      MHD_OPTION_LISTEN_SOCKET,
      static_cast<MHD_socket>(listener.get()),
      MHD_OPTION_THREAD_POOL_SIZE,
      kThreads,
      MHD_OPTION_CONNECTION_LIMIT,
      limits.connections,
      MHD_OPTION_PER_IP_CONNECTION_LIMIT,
      IsLoopback(address.host) ? 0U : limits.connections / kAddressesToFillIt,
      MHD_OPTION_CONNECTION_TIMEOUT,
      limits.silent_s,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      limits.header_bytes,
      MHD_OPTION_NOTIFY_COMPLETED,
      &HttpServerCalls::OnEnd,
      nullptr,
      MHD_OPTION_END);
  if (server->daemon_ == nullptr) {
    return Unbound(address);
  }
  listener.Release();  // the library closes it
  return server;
}

HttpServer::~HttpServer() {
  if (daemon_ != nullptr) {
    MHD_stop_daemon(daemon_);
  }
}

}  // namespace ps::run
