#pragma once

#include <map>
#include <string>
#include <vector>

#include "provisioner/unseen/device_figures.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

/// The machine that a type of the profile was measured on.
struct MachineFigures {
  std::string device;  // "V100", "cpu"
  DeviceFigures figures;
  int devices = 1;  // of one worker
};

/// "V100", "T4x4" (four of them), "cpux16" (16 vCPUs). Errors: kInvalidArgument, with the devices
/// there are.
Result<MachineFigures> ParseMachine(const std::string& text);

/// A type whose step was reckoned.
struct UnseenType {
  std::string instance_type;
  std::string from;         // the type of the profile that it was reckoned from
  std::string from_device;  // and its device
  int minibatch = 0;
  double compute_s = 0;
  double low_s = 0;  // with the probability that was asked for
  double high_s = 0;
  double deviation = 0;  // of its logarithm: a residual (ErrorQuantile) that is as wide there
};

struct UnseenRequest {
  std::vector<std::string> types = {};     // to reckon; empty: those that have accelerators
  std::vector<std::string> left_out = {};  // not these
  std::map<std::string, MachineFigures> measured_on =
      {};                                      // of the profile's types; else the catalog's
  std::vector<proto::JobProfile> others = {};  // of other jobs, on the catalog's types
  double inside = 0.8;                         // probability of `low_s` to `high_s`
};

/// Adds to the profile's workers the catalog's types that it has no figures of: each from the
/// nearest type that was measured, a device's part of the minibatch for each of its devices; no
/// larger a minibatch than was measured where no curves were fitted, since spotDNN's equation is of
/// such batches alone. What is learned from is PublishedJobs, and those of the profile and of
/// `others` that were measured on several types. Errors: kInvalidArgument, nobody says what the
/// measured machines are; kNotFound, no figures of the device of a type that was named.
Result<std::vector<UnseenType>> AddUnseenTypes(
    const proto::Catalog& catalog, const UnseenRequest& request, proto::JobProfile* profile);

}  // namespace ps::provisioner
