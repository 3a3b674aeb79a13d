#include "provisioner/fleet/kubernetes/pod_watch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <utility>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/kubernetes/pod_keeper.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr size_t kLogBytesMax = size_t{1} << 20;
/// The keeper hears the cluster once a second.
constexpr Duration kQuiet = std::chrono::milliseconds(1500);

/// In a child of a child of the agent, so that nobody waits for it.
void BecomeKeeper(const std::string& folder, const PodKeeperOptions& options) {
  ::setsid();
  if (::fork() != 0) {
    ::_exit(0);
  }
  ::prctl(PR_SET_NAME, "spotps_pods");
  ::prctl(PR_SET_PDEATHSIG, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::umask(077);
  if (::chdir(folder.c_str()) != 0) {
    ::_exit(1);
  }
  const int null = ::open("/dev/null", O_RDONLY);
  const int log = ::open(kLogFile, O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  // Among them the agent's lock, its log and its signals.
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  KeepPods(options);
  ::_exit(0);
}

}  // namespace

std::vector<std::string> KubectlWords(const KubeLogin& login) {
  std::vector<std::string> words = {"kubectl"};
  if (!login.kubeconfig.empty()) {
    words.push_back("--kubeconfig=" + login.kubeconfig);
  }
  if (!login.context.empty()) {
    words.push_back("--context=" + login.context);
  }
  return words;
}

PodWatch::PodWatch(
    std::string folder,
    KubeLogin login,
    std::string name_space,
    std::string run,
    Duration answer_limit)
    : folder_(std::move(folder)),
      login_(std::move(login)),
      name_space_(std::move(name_space)),
      run_(std::move(run)),
      answer_limit_(answer_limit) {}

Status PodWatch::Join() {
  PS_TRY(CreateDirectories(folder_ + "/" + kPodsFolder));
  PS_TRY(CreateDirectories(folder_ + "/" + kWantedFolder));
  // Whoever gets to the socket has the user's login.
  std::error_code error;
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  directory_ = UniqueFd(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory_.is_open()) {
    return IoError("cannot make", folder_);
  }
  const std::string path = folder_ + "/" + kUsersFile;
  user_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!user_.is_open() || ::flock(user_.get(), LOCK_SH) != 0) {
    return IoError("cannot lock", path);
  }
  return Status::Ok();
}

Status PodWatch::Want(const std::string& pod) {
  const std::string path = fmt::format("{}/{}/{}", folder_, kWantedFolder, pod);
  wanted_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  return wanted_.is_open() && ::flock(wanted_.get(), LOCK_EX) == 0 ? Status::Ok()
                                                                   : IoError("cannot lock", path);
}

void PodWatch::Forget(const std::string& pod) {
  ::unlink(fmt::format("{}/{}/{}", folder_, kPodsFolder, pod).c_str());
  ::unlink(fmt::format("{}/{}/{}", folder_, kWantedFolder, pod).c_str());
}

void PodWatch::Keep() const {
  const std::optional<Duration> silence = Silence();
  if (silence && *silence < kQuiet) {
    return;
  }
  const std::string path = folder_ + "/" + kKeeperFile;
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return;
  }
  lock.Reset();  // the keeper takes it itself: of two that begin, one goes on
  const pid_t pid = ::fork();
  if (pid == 0) {
    BecomeKeeper(folder_, {login_, name_space_, run_, answer_limit_});
  }
  while (pid > 0 && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<PodState> PodWatch::StateOf(const std::string& pod) const {
  const Result<std::string> text = ReadFile(fmt::format("{}/{}/{}", folder_, kPodsFolder, pod));
  if (!text.ok()) {
    return std::nullopt;
  }
  Result<PodState> state = ReadPodState(*text);
  return state.ok() ? std::optional(std::move(state).value()) : std::nullopt;
}

std::optional<Duration> PodWatch::Silence() const {
  const Result<std::string> text = ReadFile(folder_ + "/" + kHeardFile);
  int64_t nanos = 0;
  if (!text.ok() ||
      std::from_chars(text->data(), text->data() + text->size(), nanos).ec != std::errc()) {
    return std::nullopt;
  }
  const Duration silence = SystemTime().Now().time_since_epoch() - std::chrono::nanoseconds(nanos);
  // From before the machine's start: its clock began anew.
  return silence < Duration::zero() ? std::nullopt : std::optional(silence);
}

std::string PodWatch::Complaint() const {
  const Result<std::string> text = ReadFile(folder_ + "/" + kLogFile, kLogBytesMax * 2);
  const std::string line = text.ok() ? LastLineOf(*text) : "";
  constexpr std::string_view kOurs = "ps_agent: ";
  return line.starts_with(kOurs) ? line.substr(kOurs.size()) : line;
}

std::string PodWatch::socket() const {
  return fmt::format("/proc/self/fd/{}/{}", directory_.get(), kSocketFile);
}

}  // namespace ps::provisioner
