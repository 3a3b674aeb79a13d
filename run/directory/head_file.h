#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// What a run's directory says of a run whose coordinator and servers are on a rented machine: the
/// head. All else of the run is there until it is fetched.
struct HeadFile {
  std::string login;     // USER@ADDRESS, as ssh takes it; empty: not rented yet
  std::string programs;  // the folder of psctl there
  std::string from;      // a folder of checkpoints here, or a place of copies; empty: from nothing
  std::vector<std::string> changes;  // to the job that it goes on with, KEY=VALUE each
  bool is_trusted = false;           // so is what the job of a copy in a bucket starts
  bool is_started = false;           // the run is about to be, or was, started there
  bool is_begun = false;             // it was seen to listen
  bool is_given_up = false;          // the machine is to go back: nothing of worth is on it
  bool is_fetched = false;           // what it left is here
  bool is_given_back = false;        // there is no machine any more
  double usd_per_hour = 0;           // what it cost when it was rented; 0: not known
  double usd = 0;                    // what the machine has cost, then; 0: not known

  friend bool operator==(const HeadFile&, const HeadFile&) = default;
};

/// Nothing: the run's coordinator is, or was, on this machine. Errors: kCorruption, kIo.
Result<std::optional<HeadFile>> ReadHeadFile(const RunPaths& run);
Status WriteHeadFile(const RunPaths& run, const HeadFile& head);

/// Whether the run has a rented machine that was not given back. True as well if its file can't be
/// read: then nobody knows.
bool IsElsewhere(const RunPaths& run);

/// The folder of the run on its head, as seen from the home directory there.
std::string FolderOnHead(const RunPaths& run);

}  // namespace ps::run
