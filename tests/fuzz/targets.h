#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ps::fuzz {

/// Gives bytes from outside to one parser, and returns whether it took them. A broken promise ends
/// the process.
using TargetFunction = bool (*)(std::span<const uint8_t> input);

struct Target {
  std::string_view name;  // its corpus is tests/fuzz/corpus/NAME
  TargetFunction run;
};

inline std::string_view Text(std::span<const uint8_t> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

/// The target of that name; nothing when there is none.
const Target* FindTarget(std::string_view name);

/// Frames as a connection reads them. The first byte says how: in what pieces the bytes arrive, and
/// whether lengths and checksums are put right first, so that damage reaches the codecs.
bool FuzzFrames(std::span<const uint8_t> input);

/// A saved coordinator, its checksum put right.
bool FuzzJobState(std::span<const uint8_t> input);
/// `input` as the bytes of a saved coordinator whose checksum is right.
std::vector<std::byte> WithStateChecksum(std::span<const uint8_t> input);
/// A saved coordinator of a small job with some bytes changed, taken up by a core to which nobody
/// comes back.
bool FuzzCoordinator(std::span<const uint8_t> input);

/// Rows of a coordinator's journal: an empty job's, and one more. The first two bytes say of which
/// kind and number it is.
bool FuzzJobRows(std::span<const uint8_t> input);

// The files that people write: one line of error that names the file, or a value that prints and
// parses back the same.
bool FuzzJob(std::span<const uint8_t> input);
/// Settings of the command line, KEY=VALUE, a line each, over a small job.
bool FuzzOverrides(std::span<const uint8_t> input);
bool FuzzCatalog(std::span<const uint8_t> input);
bool FuzzProfile(std::span<const uint8_t> input);
bool FuzzPlan(std::span<const uint8_t> input);
/// Tables of prices. The first byte chooses the format; a zero byte parts two files.
bool FuzzImport(std::span<const uint8_t> input);

/// What clouds answer: JSON of Compute Engine when it begins with a brace, else XML of EC2.
bool FuzzCloudReply(std::span<const uint8_t> input);

/// Datasets, plain and gzip. For IDX the first byte says at what 256th the labels begin.
bool FuzzIdx(std::span<const uint8_t> input);
bool FuzzCifar(std::span<const uint8_t> input);
bool FuzzText(std::span<const uint8_t> input);
/// vocab.json, merges.txt and a text, a zero byte between.
bool FuzzBpe(std::span<const uint8_t> input);
bool FuzzNpy(std::span<const uint8_t> input);
/// Pictures in files. The first byte says in how many channels and to which size they are resized.
bool FuzzPng(std::span<const uint8_t> input);
bool FuzzJpeg(std::span<const uint8_t> input);
/// A table, plain and gzip. The first byte says whether it has tabs, and a header.
bool FuzzTable(std::span<const uint8_t> input);
/// Lines: of the journal of a fetch, and as names of objects.
bool FuzzStoredData(std::span<const uint8_t> input);

/// Records of checkpoints, their checksums put right.
bool FuzzManifest(std::span<const uint8_t> input);
bool FuzzPart(std::span<const uint8_t> input);
/// What a part has beside its chunks.
bool FuzzShardState(std::span<const uint8_t> input);
bool FuzzChunkRecord(std::span<const uint8_t> input);
bool FuzzCopyIndex(std::span<const uint8_t> input);
/// What an object store answers: a page of a list, or an error.
bool FuzzS3Reply(std::span<const uint8_t> input);

/// What EC2, Azure and Compute Engine say of a machine. The first byte chooses; the first line is
/// the reply's date, and Compute Engine's etag.
bool FuzzNotice(std::span<const uint8_t> input);

/// What the status page takes. The first byte chooses: an order, a line of metrics.jsonl, a
/// summary, or a Host header.
bool FuzzPage(std::span<const uint8_t> input);

/// A safetensors file. The first two bytes say how many bytes of data follow the header.
bool FuzzSafetensors(std::span<const uint8_t> input);
/// A safetensors file with that header and so many bytes of data.
std::vector<uint8_t> SafetensorsFileOf(std::span<const uint8_t> json, uint64_t data_bytes);
/// The same as the description of a worker's program.
bool FuzzDescription(std::span<const uint8_t> input);

/// What Slurm says. The first byte chooses: a job, or the queue.
bool FuzzSlurm(std::span<const uint8_t> input);
/// A Pod as Kubernetes describes it, and its state as an agent keeps it.
bool FuzzPod(std::span<const uint8_t> input);

/// Access keys of AWS. The first byte chooses: a configuration file, what a command prints, or the
/// replies of a role's services, each with a letter for its status and a zero byte between.
bool FuzzAwsKeys(std::span<const uint8_t> input);
/// A run's token, certificate and key.
bool FuzzTokenFile(std::span<const uint8_t> input);

/// The first byte chooses: a line of events.jsonl, or one of a log.
bool FuzzEvents(std::span<const uint8_t> input);

/// Machines that could be had over time, or their prices. The first byte says which of them, the
/// rule for gaps and the unit of time.
bool FuzzTrace(std::span<const uint8_t> input);
/// What --measured-on says of a machine.
bool FuzzMachine(std::span<const uint8_t> input);

/// A part of a gradient as it travels. The first bytes say how it is encoded and how long it is.
bool FuzzEncodings(std::span<const uint8_t> input);

bool FuzzHostPort(std::span<const uint8_t> input);
/// The words of a command line, a line each.
bool FuzzFlags(std::span<const uint8_t> input);
/// The same for psctl.
bool FuzzCommandLine(std::span<const uint8_t> input);
/// Durations, counts and ranges as psctl takes them, a line each.
bool FuzzArguments(std::span<const uint8_t> input);

}  // namespace ps::fuzz
