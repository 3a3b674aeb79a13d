#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "provisioner/provider/provider.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/proto/fleet_actions.h"

namespace ps::provisioner {

/// One start of a process, which wants a machine for itself.
struct RentalSeat {
  proto::ProcessKind kind = proto::ProcessKind::kWorker;
  uint32_t index = 0;
  LaunchId launch;

  friend auto operator<=>(const RentalSeat&, const RentalSeat&) = default;
};

/// What a run has to know of a machine when everybody who knew of it is gone. It is noted before
/// the provider is asked for the machine, and stays, so that the run's cost stays known.
struct RentalNote {
  uint64_t number = 0;             // among the run's, from 1; never used again
  std::string token;               // of the request
  std::vector<Pool> pools;         // of the request
  std::string machine;             // its id; empty: not known, or there is none
  Pool pool;                       // it came from
  int64_t started_us = 0;          // since 1970: from when it costs; 0: not known
  int64_t ended_us = 0;            // since 1970: until when it cost; 0: it does
  double usd = 0;                  // what it has cost, once it has ended
  bool is_free = false;            // it was taken back so early that it cost nothing
  std::string why;                 // it has ended
  std::optional<RentalSeat> seat;  // that it was given to last

  friend bool operator==(const RentalNote&, const RentalNote&) = default;
};

/// Where notes outlive the process.
class RentalNotes {
 public:
  virtual ~RentalNotes() = default;
  /// In place of the one with its number. After Ok it is there whatever happens next; after an
  /// error it may be.
  virtual Status Write(const RentalNote& note) = 0;
  /// The machine never was.
  virtual Status Remove(uint64_t number) = 0;
  /// In the order of their numbers. Errors: kCorruption and kIo, with the file and what to do.
  virtual Result<std::vector<RentalNote>> Load() const = 0;
};

/// A file a note, in a folder that it makes. Thread: one.
class RentalFiles final : public RentalNotes {
 public:
  explicit RentalFiles(std::string folder) : folder_(std::move(folder)) {}

  Status Write(const RentalNote& note) override;
  Status Remove(uint64_t number) override;
  Result<std::vector<RentalNote>> Load() const override;

 private:
  std::string PathOf(uint64_t number) const;

  const std::string folder_;
};

}  // namespace ps::provisioner
