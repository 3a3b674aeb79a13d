#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "configs/job_values_generated.h"
#include "ps/base/status.h"

namespace ps::proto {

// The job config as plain values. configs/job.fbs is its schema, its defaults and its manual: every
// field here has the same name there, and the comment that explains it. Validated: whoever holds a
// JobConfig made by ParseJobConfig may rely on the ranges that job.fbs states.

// Made of the schema (scripts/cmake/SpotpsKinds.cmake).
using config::DatasetFormat;
using config::LayerConfig;
using config::LayerKind;
using config::OptimizerConfig;
using config::OptimizerKind;
using config::OuterConfig;
using config::OuterKind;
using config::ScheduleConfig;
using config::ScheduleKind;

/// What 0 stands for in a ModelConfig of name gpt or bert.
inline constexpr uint32_t kModelDepth = 4;
inline constexpr uint32_t kModelHeads = 4;
inline constexpr uint32_t kModelWidth = 128;

/// What a model takes of model.from: all of it, or what fits.
enum class TakeKind : uint8_t { kAll, kFitting };

struct ModelConfig {
  std::string name;                 // a zoo name (worker/model/zoo.h), or empty with layers given
  std::vector<LayerConfig> layers;  // resolved: the zoo's layers are filled in by worker/model
  std::string from;                 // safetensors file with the initial values; empty: drawn
  TakeKind take = TakeKind::kAll;   // what of it
  uint32_t depth = 0;               // gpt, bert: how many blocks; 0: 4
  uint32_t heads = 0;               // gpt, bert; 0: 4
  uint32_t width = 0;               // gpt, bert: features of a token; 0: 128
  float dropout = 0;                // gpt, bert: rate

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct AugmentConfig {
  uint32_t crop = 0;  // pixels that a training picture is moved by at most, each way
  bool flip = false;  // half of them are mirrored, left to right

  bool is_on() const { return crop > 0 || flip; }

  friend bool operator==(const AugmentConfig&, const AugmentConfig&) = default;
};

struct PictureConfig {
  uint32_t height = 0;  // 0: as the width; both: the size that all pictures have
  uint32_t width = 0;
  uint32_t channels = 3;  // or 1: grey

  friend bool operator==(const PictureConfig&, const PictureConfig&) = default;
};

struct DataConfig {
  DatasetFormat format = DatasetFormat::kIdx;
  std::string directory;
  uint64_t train_samples = 0;  // use only the first n; 0 = all
  uint64_t test_samples = 0;
  float validation_share = 0;  // of the training samples, which epochs are measured on
  std::string validation;      // or the part of the data that they are; empty: none
  uint32_t pad = 0;            // idx, cifar10, cifar100: pixels of 0 added on each side
  uint32_t context = 0;        // text: tokens of a sample; 0: 128
  std::string tokenizer;       // text: folder of its vocab.json and merges.txt; empty: bytes
  uint32_t vocabulary = 0;     // text, npy: tokens are below this; 0: all that there are (text)
  float mask = 0;              // text: share of tokens that are hidden; 0: the next token is learnt
  float test_share = 0.1F;     // text: the last part of it, which is not trained on; pictures
  PictureConfig picture;       // pictures: what they become
  bool header = true;          // csv, tsv: the first line names the columns
  std::string label;           // csv, tsv: name or number of the labels' column; empty: the last
  std::vector<std::string> labels;  // csv, tsv: of several columns; empty: one
  AugmentConfig augment;            // of pictures
  std::string cache;  // folder of what is made of the files; empty: the user's; "off": none

  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

enum class Mode : uint8_t { kAsync, kSsp, kBsp };

/// As in the job file and on the command line, by the mode's number.
inline constexpr std::array<std::string_view, 3> kModeNames = {"async", "ssp", "bsp"};

constexpr std::string_view ModeName(Mode mode) {
  return kModeNames[static_cast<size_t>(mode)];
}

/// What an epoch is judged by.
enum class EpochMetric : uint8_t { kNone, kAccuracy, kLoss };

struct StopEarlyConfig {
  uint32_t after_epochs = 0;  // that were no better; 0: never
  float min_delta = 0;
  EpochMetric metric = EpochMetric::kAccuracy;

  friend bool operator==(const StopEarlyConfig&, const StopEarlyConfig&) = default;
};

enum class Divergence : uint8_t { kStop, kContinue };
enum class LrPolicy : uint8_t { kAuto, kFixed, kLinear, kSqrtLive, kLive, kStaleness, kListed };
enum class BatchPolicy : uint8_t { kFixed, kBySpeed };
enum class GradientDtype : uint8_t { kF32, kBf16 };

enum class ModePolicy : uint8_t { kFixed, kSyncSwitch, kSyncSwitchGreedy, kSyncSwitchElastic };

/// Whether it depends on how quick workers are.
constexpr bool LooksAtStragglers(ModePolicy policy) {
  return policy == ModePolicy::kSyncSwitchGreedy || policy == ModePolicy::kSyncSwitchElastic;
}

enum class Precision : uint8_t { kF32, kBf16 };

/// The share of a job that Sync-Switch makes in bsp, where nobody has measured another: the knee of
/// its curve for CIFAR-100, from which on accuracy is that of bsp alone.
inline constexpr float kSyncSwitchKnee = 0.125F;

struct TrainConfig {
  uint32_t epochs = 1;
  uint64_t seed = 1;
  Mode mode = Mode::kAsync;
  uint32_t staleness_max = 3;  // ssp: how many steps the fastest may lead the slowest
  uint32_t minibatch = 64;     // reference minibatch: lr belongs to it; workers may differ
  uint32_t micro_batch = 0;    // worker: samples computed at a time; 0 = the minibatch
  Precision precision = Precision::kF32;  // worker: what the factors of products are rounded to
  uint32_t lease_steps = 8;               // async, ssp: minibatches per lease
  uint32_t local_steps = 1;           // minibatches of a step; above 1 optimizer is the worker's
  bool local_steps_by_speed = false;  // fewer of them for slow workers
  bool adapts_local_steps = false;    // "auto" in the file: local_steps is what it begins with
  bool overlap = true;                // async: compute the next step while this one travels
  uint32_t evaluate_every_epochs = 1;
  StopEarlyConfig stop_early;
  Divergence on_divergence = Divergence::kStop;
  LrPolicy lr_policy = LrPolicy::kAuto;  // LrPolicyOf
  uint32_t lr_ramp_steps = 0;            // linear, sqrt_live: to twice or half the rate; 0: at once
  BatchPolicy batch_policy = BatchPolicy::kFixed;
  ModePolicy mode_policy = ModePolicy::kFixed;
  float switch_at = kSyncSwitchKnee;    // sync_switch: share of the job's samples
  float switch_lr_factor = 0;           // of lr in the other kind of mode; 0: by the workers
  float switch_momentum_factor = 1.0F;  // of momentum in it; sgd
  GradientDtype gradient_dtype = GradientDtype::kF32;

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

/// What `auto` begins with.
inline constexpr uint32_t kAutoLocalSteps = 8;
inline constexpr std::string_view kAutoWord = "auto";

/// See exchange.h for what follows from it.
struct ExchangeConfig {
  std::string push = "f32";  // as codec::ParseEncoding takes it, or kAutoWord
  std::string pull = "f32";
  bool error_feedback = true;

  friend bool operator==(const ExchangeConfig&, const ExchangeConfig&) = default;
};

/// Whose metadata service says that a machine is about to be taken back.
enum class NoticeService : uint8_t { kNone, kEc2, kGcp, kAzure };

/// As in the job file and in flags, by the service's number.
inline constexpr std::array<std::string_view, 4> kNoticeServiceNames = {
    "none", "ec2", "gcp", "azure"};

/// Who starts the workers, or the servers.
enum class LauncherKind : uint8_t { kLocal, kSsh, kSlurm, kKubernetes, kEc2, kGce };

/// Whether its machines are rented, by the provider of that name.
constexpr bool IsRented(LauncherKind launcher) {
  return launcher == LauncherKind::kEc2 || launcher == LauncherKind::kGce;
}

/// What a Pod of Kubernetes is made of. Texts are empty where the cluster's default is meant.
struct KubernetesConfig {
  std::string image;  // has the programs
  std::string image_pull_secret;
  std::string programs = "/usr/bin";  // folder of the image, or of a volume
  std::string kubeconfig;             // psctl's file of clusters; empty: kubectl's own
  std::string context;                // in it
  std::string name_space = "default";
  std::string selector;                  // of nodes: "key=value,key=value"
  std::vector<std::string> tolerations;  // "key=value:Effect"; value and effect may be absent
  std::string service_account;
  std::string priority_class;
  float cpus = 0;      // that each asks for; 0: what its threads need
  std::string memory;  // that each asks for and may have; empty: no limit
  uint32_t gpus = 0;
  std::string gpu_resource = "nvidia.com/gpu";
  std::vector<std::string> volumes;  // "claim:/path"
  uint32_t wait_s = 45;              // until a Pod that runs nothing is given up
  uint32_t run_max_h = 168;          // until Kubernetes ends it; 0: never

  friend bool operator==(const KubernetesConfig&, const KubernetesConfig&) = default;
};

struct HostConfig {
  std::string host;    // as ssh knows it: name, user@name, address or alias
  uint32_t slots = 1;  // processes at a time
  std::string zone{};  // that it is in, for workers; empty: one without a name

  friend bool operator==(const HostConfig&, const HostConfig&) = default;
};

/// What SIGTERM leaves a worker or a server, unless somebody says otherwise.
constexpr uint32_t kTermGraceSeconds = 5;
constexpr uint32_t kTermGraceSecondsMax = 3600;

struct ServerConfig {
  uint32_t count = 1;  // processes
  bool launch = true;  // psctl starts them
  LauncherKind launcher = LauncherKind::kLocal;
  std::vector<HostConfig> hosts;   // ssh: where they run
  std::string sbatch;              // slurm: words put after sbatch
  KubernetesConfig kubernetes;     // kubernetes: their Pods
  uint32_t port = 0;               // of the first shard, the others follow; 0 = any free ones
  uint32_t shards_per_server = 1;  // threads, each its own shard
  uint32_t chunk_kib = 256;
  uint32_t frame_kib = 512;   // small chunks travel together up to this size, large ones in parts
  uint32_t queue_mib = 64;    // bytes a shard or a connection may hold before it slows its peers
  uint32_t held_mib = 1024;   // a shard's copies of what workers hold, for pulls as differences
  float link_mbit_per_s = 0;  // of each server, each way; 0: as fast as it goes
  float max_detect_s = 0;     // silence after which a server is lost; 0: 10 x fleet.max_detect_s
  float usd_per_hour = 0;     // of each machine
  NoticeService notices = NoticeService::kNone;
  uint32_t term_grace_s = kTermGraceSeconds;

  friend bool operator==(const ServerConfig&, const ServerConfig&) = default;
};

/// A program that computes in the place of ps_worker; none when `program` is empty. Then the model
/// and its data are the program's: worker/script/description.h.
struct WorkerConfig {
  std::vector<std::string> program;  // its words
  std::string directory;             // in which it starts; empty: psctl's own, which it fills in

  friend bool operator==(const WorkerConfig&, const WorkerConfig&) = default;
};

struct WorkerGroup {
  uint32_t count = 1;
  uint32_t minibatch = 0;      // 0 = train.minibatch
  float slowdown = 1;          // >= 1: compute takes this many times as long, honestly slept
  float step_ms = 0;           // a step's computation is padded with waiting to at least this
  float cpu_share = 0;         // processors' time that each may use; 0: no limit
  float link_mbit_per_s = 0;   // each way; 0: as fast as it goes
  std::string type = "local";  // kind of machine, for profiles and plans
  uint32_t threads = 1;
  std::string device = "cpu";  // "cpu", "auto", "cuda", "cuda:0,1" (worker/device.h)
  NoticeService notices = NoticeService::kNone;
  float usd_per_hour = 0;            // of each machine
  std::vector<std::string> zones{};  // that they may be started in; empty: all that there are

  friend bool operator==(const WorkerGroup&, const WorkerGroup&) = default;
};

enum class FaultKind : uint8_t { kNotice, kKill, kAdd };

/// A planned disturbance, for tests and demos.
struct FaultConfig {
  float at = 0;  // when this fraction of the job's samples is counted
  FaultKind kind = FaultKind::kKill;
  uint32_t worker = 0;  // notice, kill: the worker's seat
  float grace_s = 5;    // notice: seconds until the instance is gone
  WorkerGroup add;      // add: what joins

  friend bool operator==(const FaultConfig&, const FaultConfig&) = default;
};

struct FleetConfig {
  float max_detect_s = 3;            // the one time knob: a silent worker is known lost after this
  float join_timeout_s = 60;         // how long to wait for the first servers and workers
  float orphan_grace_s = 60;         // how long these wait for a coordinator that they do not reach
  bool replace = true;               // another worker for one that is lost, or told to be gone
  bool prewarm = true;               // and one more while a provider advises to move
  float starts_per_s = 20;           // of workers, after the first ones; 0: no limit
  float park_servers_after_s = 600;  // without a worker they are ended; 0: they stay

  friend bool operator==(const FleetConfig&, const FleetConfig&) = default;
};

enum class CheckpointCodec : uint8_t { kNone, kZstd };
enum class CheckpointSlots : uint8_t { kF32, kBf16 };
enum class RecoveryKind : uint8_t { kAuto, kPartial, kConsistent };

struct BestConfig {
  EpochMetric metric = EpochMetric::kNone;
  uint32_t keep = 1;  // of the best epochs

  bool is_on() const { return metric != EpochMetric::kNone; }

  friend bool operator==(const BestConfig&, const BestConfig&) = default;
};

struct CheckpointConfig {
  bool enabled = true;
  float every_s = 30;
  std::string path;     // empty: the run directory's "checkpoints"; psctl fills it in
  std::string copy_to;  // a path or s3://BUCKET/PREFIX; empty: nowhere
  uint32_t keep = 5;    // how many
  BestConfig best;      // kept besides
  CheckpointCodec codec = CheckpointCodec::kZstd;
  CheckpointSlots slots = CheckpointSlots::kF32;  // of the optimizer
  float write_mib_per_s = 0;                      // of each server; 0: as fast as the disk
  RecoveryKind recovery = RecoveryKind::kAuto;

  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

/// A part of a batch system.
struct ZoneConfig {
  std::string name;
  std::string sbatch;  // words put after those of LaunchConfig

  friend bool operator==(const ZoneConfig&, const ZoneConfig&) = default;
};

/// The stable machine for coordinator and servers (launch.rent.head).
struct RentHeadConfig {
  std::string type;   // empty: none is rented
  std::string image;  // empty: that of workers
  std::string role;
  uint32_t disk_gib = 0;  // 0: as the image has it
  uint32_t keep_h = 24;
  float usd_per_hour = 0;  // where the provider does not tell; 0: not known

  friend bool operator==(const RentHeadConfig&, const RentHeadConfig&) = default;
};

/// What is rented for each worker (launch.rent).
struct RentConfig {
  std::string region;
  std::vector<std::string> zones;
  std::vector<std::string> types;
  bool spot = true;
  std::string image;
  std::string subnet;
  std::string security_group;
  std::string key_name;
  std::string user = "ubuntu";
  std::string role;
  uint32_t disk_gib = 0;  // 0: as the image has it
  std::string setup;      // a file: a script for the first boot
  bool private_address = false;
  uint32_t boot_s = 600;
  uint32_t idle_s = 60;
  uint32_t watch_min = 15;
  uint32_t run_max_h = 168;
  float usd_per_hour = 0;  // where the provider does not tell; 0: not known
  float leave_above = 0;   // times the price of the cheapest other pool; 0: never
  std::string project;
  std::string endpoint;  // empty: the provider's own
  RentHeadConfig head;

  friend bool operator==(const RentConfig&, const RentConfig&) = default;
};

/// What rented machines may cost. 0: no limit.
struct BudgetConfig {
  float usd = 0;
  float usd_per_hour = 0;

  friend bool operator==(const BudgetConfig&, const BudgetConfig&) = default;
};

/// What bytes between workers and servers cost (traffic_price.h). 0: nothing.
struct TrafficConfig {
  std::string server_zone;  // or kOutside
  float zone_usd_per_gb = 0;
  float egress_usd_per_gb = 0;

  friend bool operator==(const TrafficConfig&, const TrafficConfig&) = default;
};

/// Placeholders in prefix and the addresses: {name}, {role}, {index}.
struct LaunchConfig {
  LauncherKind launcher = LauncherKind::kLocal;
  RentConfig rent;                // ec2, gce
  std::vector<HostConfig> hosts;  // ssh: where workers run
  std::string ssh_config;         // ssh, servers too: a file for ssh -F; empty: the user's own
  std::string sbatch;             // slurm: words put after sbatch
  std::vector<ZoneConfig> zones;  // slurm: that workers are started in; empty: one without a name
  std::string prefix;             // words before the command; empty: none
  std::string server_listen;      // empty: run.listen; elsewhere what reaches the coordinator
  std::string server_advertise;   // empty: what it binds
  uint32_t term_grace_s = kTermGraceSeconds;  // of workers
  KubernetesConfig kubernetes;                // kubernetes: the workers' Pods

  friend bool operator==(const LaunchConfig&, const LaunchConfig&) = default;
};

/// RunConfig::page where there is none.
inline constexpr std::string_view kNoPage = "off";

enum class TlsUse : uint8_t { kAuto, kOn, kOff };

struct RunConfig {
  std::string directory = "runs";    // a folder per run is made inside
  std::string listen = "127.0.0.1";  // address the coordinator and the servers bind
  std::string advertise;             // address at which the coordinator is reached; empty: listen
  uint32_t port = 0;                 // coordinator's port; 0 = any free one
  TlsUse tls = TlsUse::kAuto;        // see UsesTls
  float metrics_every_s = 1;
  std::string page = "127.0.0.1";  // address of the status page, see ParseListenAddress, or "off"
  bool tensorboard = false;
  float seconds_max = 0;   // of training, then a clean end; 0: no limit
  float stop_at_loss = 0;  // the smoothed training loss that is enough; 0: none

  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

/// What the run is to reach, and when.
struct GoalConfig {
  float loss = 0;              // 0: no goal
  float within_s = 0;          // of training; 0: no limit
  float budget_usd = 0;        // 0: no limit
  float confidence = 0.9F;     // of both
  float takeover_s = 30;       // that a change of the fleet costs
  float change_every_s = 120;  // between two changes at least
  std::string profile = "profile.json";
  std::string catalog;  // empty: the default one

  friend bool operator==(const GoalConfig&, const GoalConfig&) = default;
};

enum class FleetPolicyKind : uint8_t {
  kNone,
  kReactive,
  kHold,
  kParcae,
  kStandby,
  kDeadline,
  kOracle
};

/// Who decides, while the job runs, how many workers there are.
struct ProvisionerConfig {
  FleetPolicyKind policy = FleetPolicyKind::kNone;
  std::string type;            // empty: that of the first group
  std::string on_demand_type;  // of policy deadline
  uint32_t workers_max = 0;    // 0: the count of the type's groups
  float interval_s = 60;
  float start_s = 120;
  float within_s = 0;  // of policy deadline
  float hand_s = 600;

  friend bool operator==(const ProvisionerConfig&, const ProvisionerConfig&) = default;
};

enum class DecayUse : uint8_t { kAuto, kOn, kOff };

struct ParameterGroup {
  std::vector<std::string> match;
  float lr_factor = 1;
  DecayUse weight_decay = DecayUse::kAuto;
  bool frozen = false;

  friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

struct JobConfig {
  std::string name;
  ModelConfig model;
  DataConfig data;
  WorkerConfig worker;
  OptimizerConfig optimizer;
  std::vector<ParameterGroup> parameters;  // the first one that has a tensor counts
  OuterConfig outer;                       // of the servers, with local steps
  TrainConfig train;
  ExchangeConfig exchange;
  ServerConfig servers;
  std::vector<WorkerGroup> workers;
  std::vector<FaultConfig> faults;
  FleetConfig fleet;
  CheckpointConfig checkpoint;
  LaunchConfig launch;
  BudgetConfig budget;
  TrafficConfig traffic;
  RunConfig run;
  GoalConfig goal;
  ProvisionerConfig provisioner;

  friend bool operator==(const JobConfig&, const JobConfig&) = default;
};

/// Whether the run's connections are encrypted: run.tls, which by itself means that an address at
/// which the run listens or is reached is not loopback.
bool UsesTls(const JobConfig& config);

/// Whether a part of the data can be called so: a folder, or what the names of files begin with.
bool IsPartName(std::string_view name);

/// One `--set key=value` of the command line, e.g. {"train.epochs", "1"}, {"workers[0].count",
/// "2"}.
struct ConfigOverride {
  std::string key;
  std::string value;
};

/// Whether the run's data have to be on this machine's disk.
enum class DataPlace : uint8_t { kHere, kElsewhere };

/// Reads, parses and validates a job file: JSON with // and /* */ comments, checked against
/// job.fbs. Overrides are applied before validation. Errors: kInvalidArgument with one message of
/// the form "FILE:LINE:COLUMN: what is wrong; what is allowed; did you mean X?" (FILE is "--set"
/// for overrides), kNotFound when there is no such file.
Result<JobConfig> LoadJobConfig(
    const std::string& path,
    const std::vector<ConfigOverride>& overrides = {},
    DataPlace data = DataPlace::kHere);
Result<JobConfig> ParseJobConfig(
    std::string_view text,
    const std::string& file_name,
    const std::vector<ConfigOverride>& overrides = {},
    DataPlace data = DataPlace::kHere);

/// Reads what another process of this build printed with PrintJobConfig. Checks everything but the
/// dataset's directory, which only workers need to have. Errors: kInvalidArgument.
Result<JobConfig> ParsePrintedJobConfig(const std::string& text);

/// The same job with some fields changed, checked as a job file is but for the dataset's directory.
/// Errors: as ParseJobConfig, with "--set" for the file.
Result<JobConfig> WithOverrides(
    const JobConfig& config, const std::vector<ConfigOverride>& overrides);

/// For faults that show only when data and model are looked at: `why` begins with the field that it
/// is about, as in "data.directory has no ...", and gets that field's place in the job file, in the
/// form above. A `why` that begins otherwise stays as it is.
Status AtItsField(
    const Status& why, const std::string& path, const std::vector<ConfigOverride>& overrides);

/// The config as resolved, as JSON that ParseJobConfig reads back to the same value.
std::string PrintJobConfig(const JobConfig& config);

}  // namespace ps::proto
