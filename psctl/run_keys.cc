#include "psctl/run_keys.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "ps/base/check.h"
#include "ps/crypto/certificates.h"
#include "ps/crypto/token_file.h"
#include "ps/crypto/worker_token.h"

namespace ps::psctl {

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
  PS_TRY(WriteFileAtomically(path, file.Text(), 0600));
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

}  // namespace ps::psctl
