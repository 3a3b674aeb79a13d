#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/time.h"

namespace ps::psctl {

/// Commands on a run's head, by ssh. Each is a script of /bin/sh that begins in the home directory
/// there, and counts as a process of ours for the machine's watch over itself. Thread: one.
class HeadShell {
 public:
  struct Access {
    std::string login;       // USER@ADDRESS
    std::string ssh_config;  // a file for ssh -F; empty: the user's own
    std::string keys;        // the folder of the machine's keys: provisioner::MachineKeysIn
  };

  explicit HeadShell(Access access) : access_(std::move(access)) {}

  /// What it prints, when it ends well within `limit`. Errors: kIo with its last words,
  /// kDeadlineExceeded.
  Result<std::string> Run(
      const std::string& script, Duration limit, std::string_view input = "") const;

  /// With this process's stdin, stdout and stderr, and its terminal if it has one. Returns its exit
  /// code; kNoConnection: ssh could not get there, or was cut off. Errors: kNotFound (no ssh).
  static constexpr int kNoConnection = 255;
  Result<int> Show(const std::string& script) const;

  /// Makes `folder` of this machine have what the script writes to stdout as tar does, one archive
  /// or several.
  Status Fetch(const std::string& script, const std::string& folder, Duration limit) const;

  /// The script reads what tar makes of folders of this machine and a name in each, an archive for
  /// each; none follows one that could not be made.
  Status Send(
      const std::vector<std::pair<std::string, std::string>>& what,
      const std::string& script,
      Duration limit) const;

  const std::string& login() const { return access_.login; }

 private:
  std::vector<std::string> Words(const std::string& script) const;

  const Access access_;
};

/// For a script in a run's folder on its head: `$run` is the run's directory there. A coordinator
/// that could not go on from its journal has begun another one, which is the newest.
inline constexpr const char* kFindRun = "for run in runs/*/; do :; done; ";

/// Whether a line of `text` is `line`: a login shell may have something to say, too.
bool SaidOf(const std::string& text, const std::string& line);

/// A folder of the head for a script: one that is not absolute is in the home directory.
std::string PathOnHead(const std::string& folder);

}  // namespace ps::psctl
