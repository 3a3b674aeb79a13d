#include "provisioner/fleet/ssh_agent.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

#include "provisioner/fleet/machine_keys.h"
#include "provisioner/fleet/ssh_turn.h"
#include "ps/base/file.h"
#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr size_t kErrorsKept = 2000;
constexpr Duration kDrainTime = std::chrono::seconds(2);
/// Between two looks for a turn to connect, and between two attempts when a host drops us.
constexpr Duration kTurnWait = std::chrono::milliseconds(100);
constexpr Duration kFirstWait = std::chrono::milliseconds(500);
constexpr Duration kLongestWait = std::chrono::seconds(4);
/// A shell says so of a program that it can't run.
constexpr int kShellCannotRun = 126;
constexpr int kShellSignalled = 128;

/// The login shell may be of any kind, so it only has to start another one, whose script follows on
/// stdin. That one stays while the process runs, whatever the process becomes, and a rented machine
/// looks for it by its first words.
constexpr const char* kBootstrap =
    "exec /bin/sh -c ': spotps process; IFS= read -r n && script=$(head -c \"$n\") && eval "
    "\"$script\"'";

/// Reads from stdin, after itself: the program if it said "need", the token and an empty line, then
/// names of signals.
/// End of file there means that nobody is left who wants the process. Says on stdout how it goes.
/// {0}: variables. {1}: the program's arguments.
constexpr const char* kScript = R"sh(umask 077
{0}
exec 3<&0
fail() {{ echo "spotps failed $*"; exit 0; }}
[ -z "$needs" ] || [ -e "$needs" ] ||
  fail "there is no $needs; the folder of the checkpoints has to be shared under one path"
all="${{XDG_CACHE_HOME:-$HOME/.cache}}/spotps"
dir="$all/$id"
file="$dir/$name"
draft="$file.$$"
if [ -x "$file" ] && [ "$(wc -c < "$file")" -eq "$size" ]; then
  echo "spotps have"
else
  mkdir -p "$dir" || fail "cannot make the folder $dir"
  echo "spotps need"
  if head -c "$size" > "$draft" && [ "$(wc -c < "$draft")" -eq "$size" ] &&
    chmod 700 "$draft" && mv "$draft" "$file"; then :; else
    rm -f "$draft"
    fail "cannot write $file"
  fi
fi
touch "$dir"
find "$all" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {{}} +
token=
while IFS= read -r line || exit 0; do
  [ -n "$line" ] || break
  token="$token$line
"
done
"$file" {1} >&2 3<&- <<END &
$token
END
process=$!
unset token line
echo "spotps running"
{{
  while IFS= read -r signal; do kill -"$signal" "$process"; done
  kill -KILL "$process"
}} <&3 3<&- > /dev/null 2>&1 &
watcher=$!
wait "$process"
code=$?
kill "$watcher"
echo "spotps ended $code"
)sh";

/// A file as it is, in memory that all agents of this machine share.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));

    struct stat info {};

    if (!fd.is_open() || ::fstat(fd.get(), &info) != 0) {
      return IoError("cannot read", path);
    }
    MappedFile file;
    file.size_ = static_cast<size_t>(info.st_size);
    file.data_ = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    return file.data_ == MAP_FAILED ? Result<MappedFile>(IoError("cannot read", path))
                                    : Result<MappedFile>(std::move(file));
  }

  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, MAP_FAILED)), size_(other.size_) {}

  MappedFile& operator=(MappedFile&&) = delete;

  ~MappedFile() {
    if (data_ != MAP_FAILED) {
      ::munmap(data_, size_);
    }
  }

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile() = default;

  void* data_ = MAP_FAILED;
  size_t size_ = 0;
};

std::string ScriptOf(const SshJob& job, std::string_view program) {
  const std::string name = std::filesystem::path(job.program).filename().string();
  const std::string variables = fmt::format(
      "id={} size={} name={} needs={}",
      ContentName(program),
      program.size(),
      ShellQuoted({name}),
      ShellQuoted({job.needs}));
  return fmt::format(fmt::runtime(kScript), variables, ShellQuoted(job.arguments));
}

/// How an agent ends that is told to end before its process has begun.
AgentEnd EndBefore(AgentWish wish) {
  return {0, wish == AgentWish::kStop ? SIGTERM : SIGKILL};
}

/// One connection, from its start to its end.
class Session {
 public:
  /// `turn` is given back once the host has let us in.
  Session(
      const SshJob& job,
      const AgentWishes& wishes,
      std::string_view program,
      Command* ssh,
      SshTurn* turn)
      : job_(job), wishes_(wishes), program_(program), ssh_(ssh), turn_(turn) {}

  AgentEnd Run() {
    const std::string script = ScriptOf(job_, program_);
    Send(fmt::format("{}\n{}", script.size(), script));
    answer_by_ = SystemTime().Now() + job_.answer_limit;
    while (!end_) {
      Step();
    }
    if (!is_killed_) {
      DrainErrors();
    }
    return *end_;
  }

  /// Why the program ended, where it did not choose to.
  const std::string& why() const { return why_; }

  /// Nothing was begun there, and another attempt may do better.
  bool may_try_again() const {
    const bool is_booting = job_.boot_limit > Duration::zero();
    return !was_let_in_ && !is_wished_ && (is_booting || (!is_killed_ && IsDropped(errors_)));
  }

 private:
  void Send(std::string text) {
    small_ += std::move(text);  // bounded: a script, a token, names of signals
  }

  void SendToken() {
    Send(job_.token + "\n\n");
    may_run_ = true;
  }

  void Step() {
    const bool has_output = !small_.empty() || !large_.empty();
    pollfd polls[4] = {
        {.fd = ssh_->out(), .events = POLLIN, .revents = 0},
        {.fd = has_output ? ssh_->in() : -1, .events = POLLOUT, .revents = 0},
        {.fd = wishes_.fd(), .events = POLLIN, .revents = 0},
        {.fd = has_errors_ ? ssh_->errors() : -1, .events = POLLIN, .revents = 0}};
    const Duration left = answer_by_ - SystemTime().Now();
    const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    if (!is_running_ && wait_ms <= 0) {
      Kill();
      End(kNotStartedExit,
          fmt::format(
              "no answer within {}; is the host up, and does ssh get in without a question?",
              FormatDuration(Seconds(job_.answer_limit))));
      return;
    }
    ::poll(polls, 4, is_running_ ? -1 : static_cast<int>(std::min<int64_t>(wait_ms, 60'000)));
    if (polls[2].revents != 0) {
      OnWish(wishes_.Await(Duration::zero()));
    }
    if (polls[3].revents != 0) {
      PassErrors();
    }
    if (polls[1].revents != 0) {
      Write();
    }
    if (polls[0].revents != 0 && !end_) {
      Read();
    }
  }

  void Kill() {
    ssh_->Kill();
    is_killed_ = true;
  }

  /// The program's log, and what ssh itself has to say.
  void PassErrors() {
    std::string text;
    has_errors_ = ReadSome(ssh_->errors(), &text);
    WriteAll(STDERR_FILENO, text, "stderr").Ignore("there is nobody to tell");
    errors_ = (errors_ + text);
    errors_.erase(0, errors_.size() - std::min(errors_.size(), kErrorsKept));
  }

  /// What was said before the end is on its way.
  void DrainErrors() {
    const TimePoint by = SystemTime().Now() + kDrainTime;
    while (has_errors_ && SystemTime().Now() < by) {
      pollfd poll = {.fd = ssh_->errors(), .events = POLLIN, .revents = 0};
      if (::poll(&poll, 1, 100) == 1) {
        PassErrors();
      }
    }
  }

  void OnWish(AgentWish wish) {
    if (wish == AgentWish::kStop && may_run_) {
      Send("TERM\n");
    } else if (wish != AgentWish::kNone) {
      Kill();
      is_wished_ = true;
      end_ = EndBefore(wish);
    }
  }

  void Write() {
    std::string_view text = small_.empty() ? large_ : std::string_view(small_);
    const size_t before = text.size();
    if (!WriteSome(ssh_->in(), &text)) {
      small_.clear();  // nobody reads: the end of its output says why
      large_ = {};
      return;
    }
    if (before != text.size()) {
      answer_by_ = SystemTime().Now() + job_.answer_limit;
    }
    if (small_.empty()) {
      large_ = text;
      if (large_.empty()) {
        SendToken();
      }
    } else {
      small_.erase(0, before - text.size());
    }
  }

  void Read() {
    const bool is_open = ReadSome(ssh_->out(), &received_);
    size_t end = 0;
    while (!end_ && (end = received_.find('\n')) != std::string::npos) {
      OnLine(received_.substr(0, end));
      received_.erase(0, end + 1);
    }
    if (!is_open && !end_) {
      if (is_running_) {
        End(kLostExit, "the connection was lost, and with it the process");
      } else {
        DrainErrors();
        End(kNotStartedExit,
            fmt::format("not started: {}; try: ssh {} true", LastLineOf(errors_), job_.host));
      }
    }
  }

  /// A login shell may greet: what is not ours is no answer.
  void OnLine(std::string_view line) {
    constexpr std::string_view kOurs = "spotps ";
    constexpr std::string_view kFailed = "failed ";
    constexpr std::string_view kEnded = "ended ";
    if (!line.starts_with(kOurs)) {
      return;
    }
    line.remove_prefix(kOurs.size());
    was_let_in_ = true;
    turn_->Release();
    answer_by_ = SystemTime().Now() + job_.answer_limit;
    if (line == "have") {
      SendToken();
    } else if (line == "need") {
      AgentSay(fmt::format(
          "{}: copying {} of {}", job_.host, FormatBytes(program_.size()), job_.program));
      large_ = program_;
    } else if (line == "running") {
      is_running_ = true;
    } else if (line.starts_with(kFailed)) {
      End(kNotStartedExit, Printable(line.substr(kFailed.size())));
    } else if (line.starts_with(kEnded)) {
      OnEnded(line.substr(kEnded.size()));
    }
  }

  void OnEnded(std::string_view text) {
    int code = -1;
    std::from_chars(text.data(), text.data() + text.size(), code);
    if (code < 0 || code >= kShellSignalled + 65) {
      End(kLostExit, fmt::format("an end that nobody understands: {}", Printable(text)));
    } else if (code > kShellSignalled) {
      end_ = AgentEnd{0, code - kShellSignalled};
    } else if (code >= kShellCannotRun) {
      End(kNotStartedExit,
          fmt::format(
              "the program can't run there; if the libraries of package spotps are missing, try: "
              "scripts/prepare_host.sh {}",
              job_.host));
    } else {
      end_ = AgentEnd{code, 0};
    }
  }

  void End(int code, const std::string& why) {
    why_ = fmt::format("{}: {}", job_.host, why);
    end_ = AgentEnd{code, 0};
  }

  const SshJob& job_;
  const AgentWishes& wishes_;
  const std::string_view program_;
  Command* const ssh_;
  SshTurn* const turn_;
  std::string small_;
  std::string_view large_;  // of program_, sent after small_
  std::string received_;
  std::string errors_;  // the last of them
  bool has_errors_ = true;
  bool is_killed_ = false;
  bool is_wished_ = false;
  bool was_let_in_ = false;
  bool may_run_ = false;     // the host has been told all that it needs to run the program
  bool is_running_ = false;  // and has said that it does
  TimePoint answer_by_{};
  std::optional<AgentEnd> end_;
  std::string why_;  // of an end that the program did not choose
};

}  // namespace

std::vector<std::string> SshWords(
    const std::string& host,
    const std::string& ssh_config,
    Duration answer_limit,
    const std::string& machine_keys) {
  std::vector<std::string> words = {"ssh", "-T", "-x", "-a"};
  if (!ssh_config.empty()) {
    words.insert(words.end(), {"-F", ssh_config});
  }
  const auto connect_s =
      std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(answer_limit).count());
  for (const std::string& option :
       {std::string("BatchMode=yes"),
        fmt::format("ConnectTimeout={}", connect_s),
        std::string("ServerAliveInterval=5"),
        std::string("ServerAliveCountMax=3"),
        std::string("ControlPath=none"),
        std::string("ClearAllForwardings=yes"),
        std::string("LogLevel=ERROR")}) {
    words.insert(words.end(), {"-o", option});
  }
  if (!machine_keys.empty()) {
    for (const std::string& option :
         {"UserKnownHostsFile=" + KnownHostsIn(machine_keys),
          std::string("GlobalKnownHostsFile=/dev/null"),
          std::string("StrictHostKeyChecking=yes"),
          std::string("HostKeyAlgorithms=ssh-ed25519"),
          "IdentityFile=" + LoginKeyIn(machine_keys),
          std::string("IdentitiesOnly=yes")}) {
      words.insert(words.end(), {"-o", option});
    }
  }
  words.insert(words.end(), {"--", host});
  return words;
}

std::string_view SshBootstrap() {
  return kBootstrap;
}

std::string ContentName(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return fmt::format("{:016x}-{}", hash, bytes.size());
}

AgentEnd RunOverSsh(const SshJob& job, const AgentWishes& wishes) {
  const Result<MappedFile> program = MappedFile::Open(job.program);
  std::vector<std::string> words =
      SshWords(job.host, job.ssh_config, job.answer_limit, job.machine_keys);
  words.emplace_back(kBootstrap);
  SshTurn turn(job.turns, job.host);
  Random random(static_cast<uint64_t>(::getpid()));
  Backoff backoff(kFirstWait, kLongestWait);
  const TimePoint give_up_at = SystemTime().Now() + std::max(job.answer_limit, job.boot_limit);
  while (true) {
    while (!turn.Take()) {
      if (const AgentWish wish = wishes.Await(kTurnWait); wish != AgentWish::kNone) {
        return EndBefore(wish);
      }
    }
    Result<Command> ssh = program.ok() ? Command::Start(words) : Result<Command>(program.status());
    if (!ssh.ok()) {
      AgentSay(fmt::format("{}: {}", job.host, ssh.status().ToString()));
      return {kNotStartedExit, 0};
    }
    Session session(job, wishes, program->bytes(), &*ssh, &turn);
    const AgentEnd end = session.Run();
    turn.Release();
    const Duration wait = backoff.Next(&random);
    if (!session.may_try_again() || SystemTime().Now() + wait > give_up_at) {
      if (!session.why().empty()) {
        AgentSay(session.why());  // last: who looks for the reason reads the end of the log
      }
      return end;
    }
    if (const AgentWish wish = wishes.Await(wait); wish != AgentWish::kNone) {
      return EndBefore(wish);
    }
  }
}

}  // namespace ps::provisioner
