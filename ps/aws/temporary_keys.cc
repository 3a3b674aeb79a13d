#include "ps/aws/temporary_keys.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/base/unique_fd.h"
#include "ps/json/json_value.h"

namespace ps::aws {
namespace {

constexpr const char* kInstanceUrl = "http://169.254.169.254";
constexpr const char* kContainerUrl = "http://169.254.170.2";
constexpr const char* kRolePath = "/latest/meta-data/iam/security-credentials/";
constexpr size_t kReplyBytesMax = size_t{64} << 10;
constexpr Duration kCommandTime = std::chrono::minutes(1);

Result<HttpReply> Ask(
    HttpClient& http, std::string method, std::string url, std::vector<std::string> headers) {
  HttpRequest request;
  request.method = std::move(method);
  request.url = std::move(url);
  request.headers = std::move(headers);
  request.reply_bytes_max = kReplyBytesMax;
  request.is_direct = true;
  return http.Do(request);
}

std::string_view TextOf(const HttpReply& reply) {
  return {reinterpret_cast<const char*>(reply.body.data()), reply.body.size()};
}

Status Unexpected(std::string_view whom, const HttpReply& reply) {
  return Status::Unavailable(fmt::format("{} answers HTTP {}", whom, reply.status));
}

std::string_view FirstLine(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  return text.ends_with('\r') ? text.substr(0, text.size() - 1) : text;
}

/// It becomes a header or a part of a URL.
bool IsOneWord(std::string_view text) {
  return !text.empty() && Printable(text) == text && text.find(' ') == std::string_view::npos;
}

/// The output of a command, or that it takes too long or fails. `pid` is reaped in any case.
Result<std::string> AwaitOutput(pid_t pid, int fd) {
  std::string output;
  const TimePoint end = SystemTime().Now() + kCommandTime;
  Status failure;
  while (failure.ok()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SystemTime().Now());
    pollfd poll = {.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = left.count() > 0 ? ::poll(&poll, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    std::array<char, 4096> buffer{};
    const ssize_t got = ready > 0 ? ::read(fd, buffer.data(), buffer.size()) : -1;
    if (got == 0) {
      break;
    }
    if (got > 0) {
      output.append(buffer.data(), static_cast<size_t>(got));
    }
    if (ready == 0) {
      failure = Status::Unavailable("it has not ended after a minute");
    } else if (got < 0 || output.size() > kReplyBytesMax) {
      failure = Status::Unavailable("its output can't be read, or has more than 64 KiB");
    }
  }
  if (!failure.ok()) {
    ::kill(pid, SIGKILL);
  }
  int wait_status = 0;
  while (::waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  PS_TRY(std::move(failure));
  if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0) {
    return Status::Unavailable(
        WIFEXITED(wait_status) ? fmt::format("it exited with code {}", WEXITSTATUS(wait_status))
                               : fmt::format("it was ended by signal {}", WTERMSIG(wait_status)));
  }
  return output;
}

/// Standard input is empty, and standard error is this process's own.
Result<std::string> RunShell(const std::string& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Status::Unavailable(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string shell = "sh";
  std::string option = "-c";
  std::string text = command;
  const std::array<char*, 4> words = {shell.data(), option.data(), text.data(), nullptr};
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, "/bin/sh", &actions, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  write_end.Reset();
  if (error != 0) {
    return Status::Unavailable(fmt::format("cannot start it: {}", std::strerror(error)));
  }
  return AwaitOutput(pid, read_end.get());
}

}  // namespace

Result<Credentials> ParseTemporaryKeys(std::string_view json, const std::string& source) {
  const auto document = ParseJson(json, source);
  const auto text_at = [&](const char* name) {
    const JsonValue* const value = document.ok() ? document->At(name) : nullptr;
    return value != nullptr && value->kind == JsonValue::Kind::kText ? value->text : std::string();
  };
  Credentials found;
  found.source = source;
  found.key.id = text_at("AccessKeyId");
  found.key.secret = text_at("SecretAccessKey");
  const std::string token = text_at("Token");
  found.session_token = token.empty() ? text_at("SessionToken") : token;
  const bool is_right = IsOneWord(found.key.id) && IsOneWord(found.key.secret) &&
                        (found.session_token.empty() || IsOneWord(found.session_token));
  if (!is_right) {
    return Status::Unavailable(
        fmt::format("{} gives no JSON with AccessKeyId and SecretAccessKey", source));
  }
  return found;
}

Result<Credentials> ReadInstanceRole(const Environment& environment, HttpClient& http) {
  if (environment("AWS_EC2_METADATA_DISABLED").value_or("") == "true") {
    return Status::NotFound("AWS_EC2_METADATA_DISABLED is true");
  }
  std::string url = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or(kInstanceUrl);
  while (url.ends_with('/')) {
    url.pop_back();
  }
  const std::string service = "the instance's metadata service";
  const auto token =
      Ask(http, "PUT", url + "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds: 300"});
  if (!token.ok()) {
    return Status::NotFound(fmt::format("{}: {}", service, std::string(token.status().message())));
  }
  if (token->status != 200 || !IsOneWord(TextOf(*token))) {
    return Unexpected(service, *token);
  }
  const std::string shown = fmt::format("X-aws-ec2-metadata-token: {}", TextOf(*token));
  PS_ASSIGN(const HttpReply roles, Ask(http, "GET", url + kRolePath, {shown}));
  if (roles.status == 404) {
    return Status::NotFound("this instance has no role");
  }
  const std::string role(FirstLine(TextOf(roles)));
  if (roles.status != 200 || !IsOneWord(role)) {
    return Unexpected(service, roles);
  }
  PS_ASSIGN(const HttpReply keys, Ask(http, "GET", url + kRolePath + role, {shown}));
  if (keys.status != 200) {
    return Unexpected(service, keys);
  }
  return ParseTemporaryKeys(TextOf(keys), fmt::format("the instance's role {}", role));
}

Result<Credentials> ReadContainerRole(const Environment& environment, HttpClient& http) {
  const auto relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const auto full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!relative && !full) {
    return Status::NotFound("no service of a container is named");
  }
  std::string authorization = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN").value_or("");
  if (const auto path = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    PS_ASSIGN(const std::string text, ReadFile(*path, kReplyBytesMax));
    authorization = FirstLine(text);
  }
  std::vector<std::string> headers;
  if (!authorization.empty()) {
    if (Printable(authorization) != authorization) {
      return Status::Unavailable("AWS_CONTAINER_AUTHORIZATION_TOKEN is no header");
    }
    headers.push_back("Authorization: " + authorization);
  }
  const std::string service = "the container's credentials service";
  PS_ASSIGN(
      const HttpReply keys,
      Ask(http, "GET", relative ? kContainerUrl + *relative : *full, std::move(headers)));
  if (keys.status != 200) {
    return Unexpected(service, keys);
  }
  return ParseTemporaryKeys(TextOf(keys), service);
}

Result<Credentials> RunCredentialProcess(const std::string& command, const std::string& source) {
  PS_ASSIGN(const std::string output, RunShell(command).Annotate(source));
  return ParseTemporaryKeys(output, source);
}

}  // namespace ps::aws
