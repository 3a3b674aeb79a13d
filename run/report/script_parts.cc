#include "run/report/script_parts.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/coordinator/checkpoints/model_file.h"
#include "ps/json/json_reader.h"
#include "ps/proto/job/tensor_treatment.h"
#include "worker/script/script_start.h"

namespace ps::run {
namespace {

namespace fs = std::filesystem;

constexpr int kPollMillis = 20;
constexpr int64_t kPartElements = int64_t{1} << 20;  // of a tensor, in memory at once
constexpr size_t kLogBytesMax = size_t{16} << 10;

/// The end of what the program printed, as lines below a sentence.
std::string LogText(const std::string& path) {
  const Result<std::string> log = ReadFile(path);
  if (!log.ok() || log->empty()) {
    return "";
  }
  const size_t from = log->size() > kLogBytesMax ? log->size() - kLogBytesMax : 0;
  std::string text = ":\n" + log->substr(from);
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

std::vector<std::string> EnvironmentFor(const std::string& description) {
  std::vector<std::string> variables;
  bool has_library = false;
  for (const char* const* variable = environ; *variable != nullptr; ++variable) {
    const std::string_view name(*variable, std::strcspn(*variable, "="));
    if (name != worker::kWorkerVariable && name != worker::kDescribeVariable) {
      variables.emplace_back(*variable);
      has_library = has_library || name == worker::kLibraryVariable;
    }
  }
  variables.push_back(std::string(worker::kDescribeVariable) + "=" + description);
  if (const std::string library = worker::LibraryPath(); !library.empty() && !has_library) {
    variables.push_back(std::string(worker::kLibraryVariable) + "=" + library);
  }
  return variables;
}

std::vector<char*> PointersOf(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::string DirectoryOf(const proto::JobConfig& config) {
  const std::string& directory = config.worker.directory;
  return fs::absolute(directory.empty() ? "." : directory).lexically_normal().string();
}

/// Starts the program. Errors: as ScriptParts::Ask.
Result<pid_t> Spawn(
    const proto::JobConfig& config, const std::string& description, const std::string& log) {
  const std::string directory = DirectoryOf(config);
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return Status::InvalidArgument(fmt::format(
        "worker.directory {} is no directory on this machine; allowed: the folder in which "
        "worker.program starts",
        Quoted(directory)));
  }
  std::vector<std::string> words = config.worker.program;
  std::vector<std::string> variables = EnvironmentFor(description);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(
      &actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  ::posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  pid_t pid = -1;
  const int failure = ::posix_spawnp(
      &pid,
      words[0].c_str(),
      &actions,
      nullptr,
      PointersOf(words).data(),
      PointersOf(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    return Status::InvalidArgument(fmt::format(
        "worker.program cannot start {} in {}: {}; install it, or mend worker.program",
        Quoted(words[0]),
        directory,
        std::strerror(failure)));
  }
  return pid;
}

/// The batches of a loop that says how many samples they have are a worker's minibatches.
Status CheckMinibatch(const worker::Description& program, const proto::JobConfig& config) {
  const uint32_t own = program.minibatch;
  const auto check = [own](const std::string& field, uint32_t minibatch) {
    return own == 0 || own == minibatch
               ? Status::Ok()
               : Status::InvalidArgument(fmt::format(
                     "{} is {}, and worker.program has steps of {} samples (batch_size of its "
                     "loader); allowed: the same, or leave batch_size out there",
                     field,
                     minibatch,
                     own));
  };
  bool is_default_used = config.workers.empty();
  for (size_t i = 0; i < config.workers.size(); ++i) {
    const uint32_t minibatch = config.workers[i].minibatch;
    is_default_used = is_default_used || minibatch == 0;
    if (minibatch != 0) {
      PS_TRY(check(fmt::format("workers[{}].minibatch", i), minibatch));
    }
  }
  return is_default_used ? check("train.minibatch", config.train.minibatch) : Status::Ok();
}

/// Which tensors decay is for the program's optimizer to say: where it has no weight decay at all,
/// that of the job would be for none.
Status CheckWeightDecay(const worker::Description& program, const proto::JobConfig& config) {
  const auto decays = [&config](const TensorSpec& tensor) {
    return tensor.rule == UpdateRule::kOptimizer &&
           proto::TreatmentOf(config.parameters, tensor).has_weight_decay;
  };
  if (config.optimizer.weight_decay == 0 || std::ranges::any_of(program.tensors, decays)) {
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "optimizer.weight_decay is {:g}, and no tensor of worker.program decays, since its own "
      "optimizer has no weight decay; allowed: 0, weight_decay above 0 in the program's groups, or "
      "parameters with weight_decay on, as [{{\"match\": [\"*.weight\"], \"weight_decay\": "
      "\"on\"}}]",
      config.optimizer.weight_decay));
}

/// waitpid's status; nothing: it did not end in time, and is killed.
std::optional<int> AwaitEnd(pid_t pid, Duration limit) {
  const TimePoint until = SystemTime().Now() + limit;
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) {
      return ended == pid ? status : 0;
    }
    if (SystemTime().Now() >= until) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return std::nullopt;
    }
    ::poll(nullptr, 0, kPollMillis);
  }
}

}  // namespace

/// Removed with all that is in it.
class ScriptParts::Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  std::string description() const { return path_ + "/description.safetensors"; }

  std::string log() const { return path_ + "/log"; }

 private:
  const std::string path_;
};

Result<ScriptParts> ScriptParts::Ask(const proto::JobConfig& config) {
  std::string path = (fs::temp_directory_path() / "spotps-script-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    return Status::Io(fmt::format("cannot make a folder like {}: {}", path, std::strerror(errno)));
  }
  const auto folder = std::make_shared<const Folder>(path);
  PS_ASSIGN(const pid_t pid, Spawn(config, folder->description(), folder->log()));
  const auto limit = double{config.fleet.join_timeout_s};
  const std::optional<int> status = AwaitEnd(pid, FromSeconds(limit));
  if (!status) {
    return Status::DeadlineExceeded(fmt::format(
        "worker.program has not come to its training loop within {:g} s (fleet.join_timeout_s), "
        "where it would say what it trains{}",
        limit,
        LogText(folder->log())));
  }
  std::error_code error;
  const bool is_described = fs::is_regular_file(folder->description(), error);
  if (!is_described || !WIFEXITED(*status) || WEXITSTATUS(*status) != 0) {
    return Status::InvalidArgument(fmt::format(
        "worker.program {} without saying what it trains (it says so where its loop asks the "
        "worker for samples){}",
        WIFEXITED(*status) ? fmt::format("exited with code {}", WEXITSTATUS(*status))
                           : fmt::format("was killed by signal {}", WTERMSIG(*status)),
        LogText(folder->log())));
  }
  ScriptParts parts;
  parts.file_ = folder->description();
  PS_ASSIGN(parts.description_, worker::ReadDescription(parts.file_));
  parts.folder_ = folder;
  return parts;
}

Result<ScriptParts> ScriptParts::Read(const std::string& path) {
  ScriptParts parts;
  parts.file_ = path;
  PS_ASSIGN(parts.description_, worker::ReadDescription(path));
  return parts;
}

std::string ScriptParts::KeptPath() const {
  return description_.has_more() ? worker::FrozenPath(file_) : "";
}

Status ScriptParts::TakeValuesFrom(const std::string& model_file) {
  PS_ASSIGN(
      const auto source,
      coordinator::ModelFileSource::Open(
          model_file, description_.tensors, {.kept_path = KeptPath()})
          .Annotate("model.from"));
  PS_TRY(source->CheckValues().Annotate("model.from"));
  values_from_ = model_file;
  return Status::Ok();
}

Status ScriptParts::KeepAs(const std::string& path) const {
  std::error_code error;
  if (const std::string frozen = worker::FrozenPath(path); description_.has_more()) {
    fs::copy_file(worker::FrozenPath(file_), frozen, fs::copy_options::overwrite_existing, error);
    if (error) {
      return Status::Io(fmt::format("cannot write {}: {}", frozen, error.message()));
    }
  }
  if (!values_from_.empty()) {
    return KeepValuesAs(path);
  }
  fs::copy_file(file_, path, fs::copy_options::overwrite_existing, error);
  return error ? Status::Io(fmt::format("cannot write {}: {}", path, error.message()))
               : Status::Ok();
}

Status ScriptParts::KeepValuesAs(const std::string& path) const {
  PS_ASSIGN(
      const auto source,
      coordinator::ModelFileSource::Open(
          values_from_, description_.tensors, {.kept_path = KeptPath()}));
  PS_ASSIGN(checkpoint::SafetensorsWriter writer, worker::CreateDescription(path, description_));
  std::vector<float> part;
  for (uint32_t tensor = 0; tensor < description_.tensors.size(); ++tensor) {
    const int64_t elements = description_.tensors[tensor].element_count();
    for (int64_t begin = 0; begin < elements; begin += kPartElements) {
      part.resize(static_cast<size_t>(std::min(kPartElements, elements - begin)));
      PS_TRY(source->Read(tensor, begin, part).Annotate("model.from"));
      PS_TRY(writer.Write(tensor, begin, part));
    }
  }
  return writer.Finish();
}

Result<proto::JobConfig> ScriptParts::Complete(
    const proto::JobConfig& config, bool names_optimizer) const {
  proto::JobConfig job = config;
  job.worker.directory = DirectoryOf(config);
  const auto count = [](const char* field, uint64_t own, uint64_t* wanted) {
    if (*wanted > own && own > 0) {
      return Status::InvalidArgument(fmt::format(
          "{} is {}, and worker.program has {}; allowed: up to {}, or 0 for all",
          field,
          *wanted,
          own,
          own));
    }
    *wanted = *wanted == 0 ? own : *wanted;
    return Status::Ok();
  };
  PS_TRY(count("data.train_samples", description_.train_samples, &job.data.train_samples));
  if (job.data.train_samples == 0) {
    return Status::InvalidArgument(
        "data.train_samples is 0, and worker.program doesn't say how many there are; allowed: 1 or "
        "more");
  }
  if (description_.test_samples == 0 && config.data.test_samples > 0) {
    return Status::InvalidArgument(
        "data.test_samples is above 0, and worker.program evaluates nothing; allowed: 0, or have "
        "the program evaluate (worker.evaluate)");
  }
  PS_TRY(count("data.test_samples", description_.test_samples, &job.data.test_samples));
  if (const uint32_t steps = description_.local_steps; steps > 1 && config.train.local_steps == 1) {
    PS_ASSIGN(
        job,
        proto::ParseJobConfig(
            proto::PrintJobConfig(job),
            "worker.program's local steps",
            {{"train.local_steps", std::to_string(steps)}, {"train.overlap", "false"}}));
  } else if (steps > 0 && steps != config.train.local_steps) {
    return Status::InvalidArgument(fmt::format(
        "train.local_steps is {}, and worker.program asks for {}; allowed: the same, or say it in "
        "one place",
        config.train.local_steps,
        steps));
  }
  PS_TRY(CheckMinibatch(description_, config));
  if (names_optimizer && job.train.local_steps == 1) {
    PS_TRY(CheckWeightDecay(description_, config));
  }
  if (!names_optimizer && job.train.local_steps == 1) {
    PS_ASSIGN(job.optimizer, OwnOptimizer(config));
    job.optimizer.schedule = config.optimizer.schedule;
    job.optimizer.clip_value = config.optimizer.clip_value;
  }
  return job;
}

/// By the job's own rules.
Result<proto::OptimizerConfig> ScriptParts::OwnOptimizer(const proto::JobConfig& config) const {
  if (description_.optimizer_json.empty()) {
    return Status::InvalidArgument(
        "optimizer.kind is missing, and worker.program has no optimizer that the servers have: "
        "another kind or option, groups with different settings, or a scheduler; allowed: an "
        "optimizer with its kind, lr and schedule (parameters[].lr_factor is the rate of a group "
        "to that of the others), or train.local_steps above 1, with which the program's own works");
  }
  proto::JobConfig plain = config;
  plain.optimizer = {};
  PS_ASSIGN(
      const proto::JobConfig with,
      proto::ParseJobConfig(
          proto::PrintJobConfig(plain),
          "worker.program's optimizer",
          {{"optimizer", description_.optimizer_json}})
          .Annotate("worker.program has an optimizer that the servers don't: give the job one"));
  return with.optimizer;
}

std::string ScriptParts::OptimizerNote(const proto::JobConfig& config) const {
  if (config.train.local_steps > 1) {
    return "";
  }
  if (description_.optimizer_json.empty()) {
    return fmt::format(
        "the servers apply optimizer {} of the job; worker.program's own is none that they have",
        config::kOptimizerKindNames[static_cast<size_t>(config.optimizer.kind)]);
  }
  const Result<proto::OptimizerConfig> own = OwnOptimizer(config);
  proto::OptimizerConfig job = config.optimizer;
  job.schedule = {};  // the program's schedules are not known
  job.clip_value = 0;
  if (own.ok() && *own == job) {
    return "";
  }
  return fmt::format(
      "the servers apply the job's optimizer, and worker.program has another one: {}",
      description_.optimizer_json);
}

std::string FrozenTensorsOf(const std::string& described) {
  std::string path = worker::FrozenPath(described);
  std::error_code error;
  return fs::exists(path, error) ? path : "";
}

}  // namespace ps::run
