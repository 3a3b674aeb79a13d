#pragma once

#include <string>
#include <string_view>

#include "ps/base/unique_fd.h"

namespace ps::provisioner {

/// So many agents of a run connect to one host at a time. An sshd drops connections at random from
/// 10 on that have not logged in yet (MaxStartups 10:30:100 is its default), and other runs and
/// people connect as well.
inline constexpr int kSshOpeningMax = 5;

/// One of kSshOpeningMax turns to connect to `host`, among the agents with one `folder`: a lock of
/// a file there, which goes with its process. Not taken at first.
class SshTurn {
 public:
  SshTurn(const std::string& folder, const std::string& host);

  /// False while others have all turns: ask again in a moment. True as well where the folder takes
  /// no files: then nobody limits anything.
  bool Take();

  /// The host has let us in, or will not.
  void Release() { lock_.Reset(); }

 private:
  const std::string path_;  // its number is added
  UniqueFd lock_;
};

/// Whether ssh says that the host dropped the connection before a login, as sshd does when too many
/// come at once: worth another attempt.
bool IsDropped(std::string_view errors);

}  // namespace ps::provisioner
