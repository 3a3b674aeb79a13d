#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ps/base/status.h"

namespace ps::checkpoint {

/// A process among those of all machines that share a folder. A pid means something within one pid
/// namespace of one boot of one machine; there the start time tells two processes with one pid
/// apart.
struct ProcessIdentity {
  uint64_t machine = 0;        // a hash of its id and its name
  uint64_t boot = 0;           // a hash of the boot's id
  uint64_t pid_namespace = 0;  // a container has one of its own
  uint64_t pid = 0;
  uint64_t start_ticks = 0;  // from the boot to its start

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

ProcessIdentity ThisProcess();

/// A folder in a checkpoint path for hard links to its files: they stay readable while the run
/// removes the files themselves. It goes with its owner.
class Links {
 public:
  /// Removes what processes that are gone have left: those of this machine that are over, and after
  /// a week those of which this machine can't tell. Errors: kIo.
  static Result<Links> Create(const std::string& path);

  Links(Links&& other) noexcept;
  Links& operator=(Links&&) = delete;
  ~Links();

  const std::string& path() const { return path_; }

  /// The name of an owner's folder, and the owner by the name; nothing for another name.
  static std::string NameOf(const ProcessIdentity& owner, int number);
  static std::optional<ProcessIdentity> OwnerOf(std::string_view name);

 private:
  explicit Links(std::string path);

  std::string path_;  // empty: moved from
};

}  // namespace ps::checkpoint
