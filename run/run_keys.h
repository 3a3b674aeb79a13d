#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ps/base/status.h"
#include "ps/crypto/tls.h"
#include "ps/proto/fleet_actions.h"
#include "ps/proto/messages.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// Lets the processes that psctl starts into the run: each gets a file of its own in the run
/// directory's folder `tokens`, and the newest one of a worker makes those before it worthless.
/// Thread: one. `directory` outlives this.
class RunKeys {
 public:
  explicit RunKeys(const RunDirectory* directory) : directory_(*directory) {}

  /// The coordinator's; null when the run is not encrypted.
  std::shared_ptr<const crypto::TlsContext> CoordinatorsTls() const;

  /// A new token for a process that is about to start, and the file that has it. Errors: kIo.
  Result<std::string> MakeTokenFile(proto::ProcessKind kind, uint32_t index);

  /// Whether who showed a token of this run may come in: kInvalidArgument to a worker's that is not
  /// the newest of its seat.
  Status Admit(const proto::Hello& hello) const;

 private:
  std::string PathOf(proto::ProcessKind kind, uint32_t index) const;

  const RunDirectory& directory_;
  // For seats that were asked for; those of an earlier coordinator are in their files.
  mutable std::map<uint32_t, std::string> worker_tokens_;
};

}  // namespace ps::run
