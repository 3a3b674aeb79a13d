#include "provisioner/fleet/kubernetes/pod_keeper.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/kubernetes/kube_api.h"
#include "provisioner/fleet/kubernetes/pod_state.h"
#include "ps/base/file.h"
#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr size_t kEventBytesMax = size_t{4} << 20;
constexpr Duration kFirstPause = std::chrono::milliseconds(200);
constexpr Duration kLongestPause = std::chrono::seconds(10);
constexpr Duration kLookForAgents = std::chrono::milliseconds(100);
/// A watch that says nothing is followed by a list after so long: what it may have missed is then
/// known.
constexpr int kWatchSeconds = 120;
constexpr int kListPart = 500;
constexpr int kExpired = 410;

/// `kubectl proxy`: the API for whoever may open its socket.
class Proxy {
 public:
  explicit Proxy(const KubeLogin& login) : login_(login) {}

  /// Begins it, unless it runs. False: it does not run.
  bool Keep() {
    Drain();
    if (command_) {
      return true;
    }
    ::unlink(kSocketFile);
    std::vector<std::string> words = KubectlWords(login_);
    words.insert(words.end(), {"proxy", fmt::format("--unix-socket={}", kSocketFile)});
    Result<Command> command = Command::Start(words);
    if (!command.ok()) {
      AgentSay(std::string(command.status().message()));
      return false;
    }
    command_.emplace(std::move(command).value());
    command_->CloseInput();
    return true;
  }

  /// What it says goes to the log; its end is noticed.
  void Drain() {
    if (!command_) {
      return;
    }
    pollfd polls[2] = {
        {.fd = command_->out(), .events = POLLIN, .revents = 0},
        {.fd = command_->errors(), .events = POLLIN, .revents = 0}};
    ::poll(polls, 2, 0);
    std::string text;
    if (polls[1].revents != 0) {
      ReadSome(command_->errors(), &text);
      WriteAll(STDERR_FILENO, text, "stderr").Ignore("there is nobody to tell");
    }
    text.clear();
    if (polls[0].revents != 0 && !ReadSome(command_->out(), &text)) {
      // Its last words, if any, are in the other pipe.
      text.clear();
      ReadSome(command_->errors(), &text);
      WriteAll(STDERR_FILENO, text, "stderr").Ignore("there is nobody to tell");
      command_->Await();
      command_.reset();
    }
  }

 private:
  const KubeLogin& login_;
  std::optional<Command> command_;
};

class Keeper {
 public:
  explicit Keeper(const PodKeeperOptions& options)
      : options_(options),
        proxy_(options.login),
        users_(::open(kUsersFile, O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
        heard_(::open(kHeardFile, O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
        api_(kSocketFile, options.answer_limit, [this] { return OnTick(); }),
        random_(static_cast<uint64_t>(::getpid())) {}

  void Run() {
    Backoff backoff(kFirstPause, kLongestPause);
    while (!IsAlone()) {
      const Status status = proxy_.Keep() ? ListAndWatch() : Status::Unavailable("no kubectl");
      if (status.ok()) {
        backoff.Reset();
        continue;
      }
      Complain(status);
      Pause(backoff.Next(&random_));
    }
  }

 private:
  /// Whether no agent is left.
  bool IsAlone() const { return ::flock(users_.get(), LOCK_EX | LOCK_NB) == 0; }

  /// During a call, once a second and whenever something comes.
  bool OnTick() {
    proxy_.Drain();
    if (is_watching_) {
      NoteHeard();
    }
    return IsAlone();
  }

  bool Pause(Duration limit) {
    const TimePoint by = SystemTime().Now() + limit;
    while (SystemTime().Now() < by) {
      if (IsAlone()) {
        return false;
      }
      proxy_.Drain();
      ::poll(nullptr, 0, static_cast<int>(kLookForAgents / std::chrono::milliseconds(1)));
    }
    return !IsAlone();
  }

  /// Once each, as long as nothing else is wrong.
  void Complain(const Status& status) {
    std::string text(status.message());
    if (status.code() != StatusCode::kCancelled && text != complaint_) {
      AgentSay(text);
      complaint_ = std::move(text);
    }
  }

  void NoteHeard() {
    const TimePoint now = SystemTime().Now();
    if (now - last_heard_ < kLookForAgents) {
      return;
    }
    last_heard_ = now;
    const std::string text = fmt::format("{:020}\n", now.time_since_epoch().count());
    if (::pwrite(heard_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
      AgentSay("cannot write the time at which the cluster was heard");
    }
  }

  Status ListAndWatch() {
    PS_ASSIGN(const std::string version, List());
    complaint_.clear();
    NoteHeard();
    is_watching_ = true;
    Status status = Watch(version);
    is_watching_ = false;
    return status;
  }

  std::string Query(std::string_view more) const {
    return fmt::format(
        "{}?labelSelector={}{}",
        KubePath(options_.name_space, "pods"),
        UrlText("spotps.dev/run=" + options_.run),
        more);
  }

  /// All Pods, in parts. Returns what to watch from.
  Result<std::string> List() {
    std::set<std::string> listed;
    std::string next;
    std::string version;
    do {
      const std::string more =
          fmt::format("&limit={}", kListPart) + (next.empty() ? "" : "&continue=" + UrlText(next));
      PS_ASSIGN(const KubeReply reply, api_.Call("GET", Query(more), "", [this](Duration wait) {
        return Pause(wait) && proxy_.Keep();
      }));
      if (!reply.is_ok()) {
        // 410: the rest is too old to be told, so all is asked again.
        return Status::Unavailable("cannot list the Pods: " + WordsOf(reply));
      }
      PS_ASSIGN(const JsonValue list, ParseJson(reply.body, "the list of Pods"));
      const JsonValue* const items = list.At("items");
      if (items == nullptr || items->kind != JsonValue::Kind::kList) {
        return Status::Unavailable("the list of Pods has no items");
      }
      for (const JsonValue& item : items->children) {
        listed.insert(Learn(item, false));
      }
      next = FieldOfPod(list, "metadata.continue");
      version = FieldOfPod(list, "metadata.resourceVersion");
    } while (!next.empty());
    DeleteUnwanted(listed);
    for (auto& [name, state] : known_) {
      if (!listed.contains(name) && !state.is_gone && !state.is_absent) {
        state.is_absent = true;
        Write(name, state);
      }
    }
    return version;
  }

  /// Pods of the run whose agents are gone: killed before they could delete them, or their creation
  /// was carried out after it was given up. An agent locks its file before it asks for a Pod.
  void DeleteUnwanted(const std::set<std::string>& listed) {
    for (const std::string& name : listed) {
      const auto it = known_.find(name);
      if (it == known_.end() || IsWanted(name)) {
        continue;
      }
      const std::string options = fmt::format(
          R"({{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{{"uid":"{}"}}}})",
          it->second.uid);
      const Result<KubeReply> reply = api_.Call(
          "DELETE",
          KubePath(options_.name_space, "pods") + "/" + name,
          options,
          [this](Duration wait) { return Pause(wait); });
      AgentSay(fmt::format(
          "Pod {} has no agent: {}",
          name,
          !reply.ok()      ? std::string(reply.status().message())
          : reply->is_ok() ? "deleted"
                           : WordsOf(*reply)));
    }
  }

  static bool IsWanted(const std::string& name) {
    const std::string path = fmt::format("{}/{}", kWantedFolder, name);
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    return file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
  }

  /// Until it ends, which is no error.
  Status Watch(const std::string& version) {
    std::string received;
    bool is_expired = false;
    const std::string more = fmt::format(
        "&watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
        kWatchSeconds,
        UrlText(version));
    const Result<KubeReply> reply = api_.Stream(Query(more), [&](std::string_view data) {
      received += data;
      size_t end = 0;
      while ((end = received.find('\n')) != std::string::npos) {
        is_expired = !OnEvent(received.substr(0, end)) || is_expired;
        received.erase(0, end + 1);
      }
      if (received.size() > kEventBytesMax) {
        received.clear();  // no event: what it was is in the next list
        is_expired = true;
      }
      NoteHeard();
    });
    if (!reply.ok()) {
      return reply.status();
    }
    if (!reply->is_ok() && reply->status != kExpired) {
      return Status::Unavailable("cannot watch the Pods: " + WordsOf(*reply));
    }
    // A server that ends each watch at once must not be asked in a circle.
    if (is_expired || reply->status == kExpired) {
      Pause(kFirstPause);
    }
    return Status::Ok();
  }

  /// False: the watch has nothing more to say that can be relied on.
  bool OnEvent(std::string_view line) {
    const Result<JsonValue> event = ParseJson(line, "a watch");
    if (!event.ok()) {
      return false;
    }
    const std::string type = FieldOfPod(*event, "type");
    const JsonValue* const object = event->At("object");
    if (object == nullptr || type == "ERROR") {
      return false;
    }
    if (type == "ADDED" || type == "MODIFIED" || type == "DELETED") {
      Learn(*object, type == "DELETED");
    }
    return true;
  }

  /// Returns the Pod's name.
  std::string Learn(const JsonValue& pod, bool is_gone) {
    std::string name = FieldOfPod(pod, "metadata.name");
    // A part of a path here, as far as the API keeps its own rules.
    const bool is_name = !name.empty() && name.find('/') == std::string::npos && name[0] != '.';
    if (is_name) {
      PodState state = ParsePod(pod);
      state.is_gone = is_gone;
      const auto [it, is_new] = known_.try_emplace(name);
      if (is_new || !(it->second == state)) {
        it->second = std::move(state);
        Write(name, it->second);
      }
      if (is_gone) {
        known_.erase(it);
      }
    }
    return name;
  }

  static void Write(const std::string& name, const PodState& state) {
    const std::string path = fmt::format("{}/{}", kPodsFolder, name);
    if (const Status status = WriteFileAtomically(path, PodStateText(state), 0600); !status.ok()) {
      AgentSay(std::string(status.message()));
    }
  }

  static std::string FieldOfPod(const JsonValue& json, std::string_view path) {
    const JsonValue* const value = json.At(path);
    return value == nullptr ? "" : value->text;
  }

  const PodKeeperOptions& options_;
  Proxy proxy_;
  const UniqueFd users_;
  const UniqueFd heard_;
  KubeApi api_;
  Random random_;
  std::map<std::string, PodState> known_;  // by name
  std::string complaint_;
  bool is_watching_ = false;
  TimePoint last_heard_{};
};

}  // namespace

void KeepPods(const PodKeeperOptions& options) {
  const UniqueFd lock(::open(kKeeperFile, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return;
  }
  ::signal(SIGPIPE, SIG_IGN);
  Keeper(options).Run();
  ::unlink(kSocketFile);
}

}  // namespace ps::provisioner
