#include "tests/fuzz/targets.h"

#include <algorithm>
#include <array>

namespace ps::fuzz {
namespace {

constexpr std::array<Target, 42> kTargets = {
    {{"frames", FuzzFrames},
     {"job", FuzzJob},
     {"overrides", FuzzOverrides},
     {"job_rows", FuzzJobRows},
     {"job_state", FuzzJobState},
     {"coordinator", FuzzCoordinator},
     {"command_line", FuzzCommandLine},
     {"arguments", FuzzArguments},
     {"catalog", FuzzCatalog},
     {"profile", FuzzProfile},
     {"plan", FuzzPlan},
     {"import", FuzzImport},
     {"manifest", FuzzManifest},
     {"part", FuzzPart},
     {"shard_state", FuzzShardState},
     {"chunk_record", FuzzChunkRecord},
     {"copy_index", FuzzCopyIndex},
     {"s3_reply", FuzzS3Reply},
     {"notice", FuzzNotice},
     {"cloud_reply", FuzzCloudReply},
     {"page", FuzzPage},
     {"encodings", FuzzEncodings},
     {"idx", FuzzIdx},
     {"cifar", FuzzCifar},
     {"text", FuzzText},
     {"bpe", FuzzBpe},
     {"npy", FuzzNpy},
     {"table", FuzzTable},
     {"stored_data", FuzzStoredData},
     {"png", FuzzPng},
     {"jpeg", FuzzJpeg},
     {"safetensors", FuzzSafetensors},
     {"description", FuzzDescription},
     {"slurm", FuzzSlurm},
     {"pod", FuzzPod},
     {"aws_keys", FuzzAwsKeys},
     {"token_file", FuzzTokenFile},
     {"events", FuzzEvents},
     {"trace", FuzzTrace},
     {"machine", FuzzMachine},
     {"host_port", FuzzHostPort},
     {"flags", FuzzFlags}}};

}  // namespace

const Target* FindTarget(std::string_view name) {
  const auto* found = std::find_if(
      kTargets.begin(), kTargets.end(), [&](const Target& target) { return target.name == name; });
  return found == kTargets.end() ? nullptr : found;
}

}  // namespace ps::fuzz
