#include "run/run_keys.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "ps/base/check.h"
#include "ps/base/file.h"
#include "ps/base/unique_fd.h"
#include "ps/crypto/certificates.h"
#include "ps/crypto/token_file.h"
#include "ps/crypto/worker_token.h"

namespace ps::run {
namespace {

/// Overwrites a file in its own blocks, which a full disk allows.
Status WriteOver(const std::string& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.is_open() ||
      ::pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::ftruncate(fd.get(), static_cast<off_t>(text.size())) != 0) {
    return IoError("cannot write", path);
  }
  return Status::Ok();
}

/// A full disk must not keep a lost process from being started again: the file of the process
/// before is of no use any more, so it may be overwritten where no new one can be made.
Status WriteTokenFile(const std::string& path, std::string_view text) {
  const Status written = WriteFileAtomically(path, text, 0600);
  return written.ok() || WriteOver(path, text).ok() ? Status::Ok() : written;
}

}  // namespace

std::shared_ptr<const crypto::TlsContext> RunKeys::CoordinatorsTls() const {
  if (!directory_.authority()) {
    return nullptr;
  }
  auto tls = crypto::TlsContext::Make(
      directory_.authority()->Issue("coordinator", {crypto::kCoordinatorRole}));
  PS_CHECK(tls.ok()) << tls.status();
  return *std::move(tls);
}

std::string RunKeys::PathOf(proto::ProcessKind kind, uint32_t index) const {
  return fmt::format("{}/{}{}", directory_.paths().tokens(), proto::ProcessKindName(kind), index);
}

Result<std::string> RunKeys::MakeTokenFile(proto::ProcessKind kind, uint32_t index) {
  const bool is_worker = kind == proto::ProcessKind::kWorker;
  crypto::TokenFile file;
  file.token =
      is_worker ? crypto::MakeWorkerToken(directory_.token(), WorkerId(index)) : directory_.token();
  if (directory_.authority()) {
    file.pem = directory_.authority()->Issue(
        fmt::format("{}{}", proto::ProcessKindName(kind), index),
        {is_worker ? crypto::kWorkerRole : crypto::kServerRole});
  }
  const std::string path = PathOf(kind, index);
  if (::mkdir(directory_.paths().tokens().c_str(), 0700) != 0 && errno != EEXIST) {
    return IoError("cannot make the directory", directory_.paths().tokens());
  }
  PS_TRY(WriteTokenFile(path, file.Text()));
  if (is_worker) {
    worker_tokens_[index] = std::move(file.token);
  }
  return path;
}

Status RunKeys::Admit(const proto::Hello& hello) const {
  const std::optional<WorkerId> seat = crypto::SeatOfToken(hello.token);
  if (!seat) {
    return Status::Ok();
  }
  auto newest = worker_tokens_.find(seat->value);
  if (newest == worker_tokens_.end()) {
    const Result<crypto::TokenFile> file =
        crypto::ReadTokenFile(PathOf(proto::ProcessKind::kWorker, seat->value));
    newest = worker_tokens_.emplace(seat->value, file.ok() ? file->token : "").first;
  }
  if (!crypto::EqualInConstantTime(newest->second, hello.token)) {
    return Status::InvalidArgument(fmt::format(
        "worker {} was replaced, and its token with it: only the newest process of a seat may "
        "take part",
        seat->value));
  }
  return Status::Ok();
}

}  // namespace ps::run
