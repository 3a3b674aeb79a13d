#pragma once

#include <optional>
#include <string>
#include <vector>

#include "provisioner/profile/start_times.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"

namespace ps::run {

struct Planning;

// What comes before a fleet's first step: how long that takes, who says so, and what plans do with
// it. What the catalog says goes before what was measured, and --start-up before both.

/// How long a new machine of a type of the catalog takes until its worker's first step, by the
/// profile.
struct MeasuredStart {
  std::string instance_type;
  provisioner::StartTimes times;
  double catalog_s = 0;  // what the catalog says instead; 0: nothing, so the median is used
};

/// Puts measured medians into the types of `catalog` whose start_up_s is not known, and returns all
/// that were measured. `launcher`: as of StartsFor.
std::vector<MeasuredStart> UseMeasuredStarts(
    const proto::JobProfile& profile, const std::string& launcher, proto::Catalog* catalog);

/// "start-up of g4dn.xlarge: 1m 34s, measured 12 times", or that the catalog says something else by
/// more than a factor of two; empty: there is nothing to say.
std::string MeasuredStartNote(const MeasuredStart& start);

/// A new fleet trains when its machines are up, and is paid for until then, too: as long as its
/// slowest one takes, or what the command says of all.
void CountStart(Planning* planning);

/// Names the machines of a new fleet whose start nobody tells.
void AddStartNote(const Planning& planning, proto::Plan* plan);

/// Names those whose start was measured, where the plan counts one. Requires: the plan says what
/// revocations do.
void AddMeasuredStarts(const Planning& planning, proto::Plan* plan);

/// How long a new machine of the type takes: `given` (--start-up), or else what the catalog says or
/// was measured, or else provisioner::kStartUpS.
double StartSecondsOf(
    const Planning& planning, const std::string& type, std::optional<double> given);

/// As MeasuredStartNote, of a type of the catalog.
std::string StartNoteOf(const Planning& planning, const std::string& type);

/// Measured starts of the types that a plan may have, for one that was not found: a line each.
std::vector<std::string> StartNotes(const Planning& planning);

}  // namespace ps::run
