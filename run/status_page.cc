#include "run/status_page.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/host_port.h"
#include "ps/json/json_writer.h"
#include "run/directory/files.h"
#include "run/page/page_access.h"
#include "run/page/page_routes.h"

namespace ps::run {
namespace {

/// How soon a status is there for whoever looks first.
constexpr Duration kTurn = std::chrono::milliseconds(50);
/// How long a button waits for its answer: longer than the loop is ever busy.
constexpr Duration kAnswerMax = std::chrono::seconds(5);
constexpr size_t kKeySize = 32;  // hex digits
constexpr size_t kLinkBytesMax = 1024;

/// What the run was planned to come to, for the page.
std::string PlanJson(const std::optional<proto::Plan>& plan) {
  if (!plan) {
    return "";
  }
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("loss_target", plan->loss_target);
  json.Field("seconds", plan->seconds.value);
  json.Field("seconds_low", plan->seconds.low);
  json.Field("seconds_high", plan->seconds.high);
  json.Field("usd", plan->usd.value);
  json.Field("usd_low", plan->usd.low);
  json.Field("usd_high", plan->usd.high);
  json.Field("samples_per_s", plan->samples_per_s.value);
  json.EndObject();
  return std::move(json).Take();
}

/// What a call for a checkpoint came to.
struct Begun {
  Result<uint64_t> checkpoint;
};

Result<std::string> MakeKey() {
  PS_ASSIGN(const std::string token, MakeToken());
  return token.substr(0, kKeySize);
}

/// The port in the link that an earlier coordinator left; 0: there is none.
uint32_t PortOfLink(const std::string& path) {
  const Result<std::string> link = ReadSmallFile(path, kLinkBytesMax);
  constexpr std::string_view kBegin = "http://";
  const size_t end = link.ok() ? link->find("/#") : std::string::npos;
  if (end == std::string::npos || !link->starts_with(kBegin)) {
    return 0;
  }
  const Result<HostPort> address =
      ParseHostPort(std::string_view(*link).substr(kBegin.size(), end - kBegin.size()));
  return address.ok() ? address->port : 0;
}

}  // namespace

/// Brings what the page's threads ask to the loop, and the answers back. Outlives both.
class StatusPage::Calls {
 public:
  /// Waits until `call` was made on the loop. Errors: kDeadlineExceeded, kUnavailable. Thread: any.
  template <typename Answer>
  Result<Answer> Make(
      const std::shared_ptr<Calls>& self, net::Loop* loop, std::function<Answer()> call) {
    const auto answer = std::make_shared<std::optional<Answer>>();
    PS_TRY(loop->Post([self, answer, call = std::move(call)] {
      {
        const std::lock_guard lock(self->mutex_);
        if (self->has_ended_) {
          return;
        }
      }
      Answer made = call();
      {
        const std::lock_guard lock(self->mutex_);
        *answer = std::move(made);
      }
      self->answered_.notify_all();
    }));
    std::unique_lock lock(mutex_);
    answered_.wait_for(lock, kAnswerMax, [&] { return has_ended_ || answer->has_value(); });
    if (answer->has_value()) {
      return std::move(**answer);
    }
    return has_ended_ ? Status::Unavailable("the run has ended")
                      : Status::DeadlineExceeded(
                            "the coordinator is busy, and may do it yet; look before asking again");
  }

  void End() {
    {
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
    }
    answered_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable answered_;
  bool has_ended_ = false;
};

StatusPage::StatusPage(const Options& options, coordinator::CoordinatorHost* host)
    : host_(host), paths_(options.paths), calls_(std::make_shared<Calls>()) {}

Result<std::unique_ptr<StatusPage>> StatusPage::Start(
    const Options& options, coordinator::CoordinatorHost* host) {
  PS_ASSIGN(HostPort address, ParseListenAddress(options.address));
  std::string key;
  uint32_t old_port = 0;
  if (options.is_recovered) {
    old_port = PortOfLink(options.paths.page_link());
    if (Result<std::string> old = ReadSmallFile(options.paths.page_key(), kLinkBytesMax);
        old.ok() && old->size() == kKeySize) {
      key = std::move(old).value();
    }
  }
  if (key.empty()) {
    PS_ASSIGN(key, MakeKey());
  }
  std::unique_ptr<StatusPage> page(new StatusPage(options, host));
  PageBoard::Options board;
  board.plan = PlanJson(options.plan);
  board.past = options.is_recovered ? options.paths.metrics() : "";
  const auto calls = page->calls_;
  board.steering.ask = [calls, host](proto::Message request) {
    const auto asked = std::make_shared<proto::Message>(std::move(request));
    return calls->Make<proto::Message>(
        calls, &host->loop(), [host, asked] { return host->Ask(std::move(*asked)); });
  };
  board.steering.checkpoint_now = [calls, host]() -> Result<uint64_t> {
    PS_ASSIGN(const Begun begun, calls->Make<Begun>(calls, &host->loop(), [host] {
      return Begun{host->CheckpointNow()};
    }));
    return begun.checkpoint;
  };
  auto source = std::make_unique<PageBoard>(std::move(board));
  PageBoard* const shown = source.get();
  std::vector<PageRun> runs;
  runs.push_back({BaseName(options.paths.root), std::move(source)});
  const auto routes = std::make_shared<PageRoutes>(std::move(runs), key, options.software);
  const auto answer = [routes](const PageRequest& request) { return routes->Answer(request); };
  Result<std::unique_ptr<HttpServer>> server = Status::Unavailable("");
  if (address.port == 0 && old_port != 0) {
    server = HttpServer::Start({address.host, old_port}, {}, answer);
  }
  if (!server.ok()) {
    PS_ASSIGN(server, HttpServer::Start(address, {}, answer));
  }
  page->server_ = std::move(server).value();
  page->board_ = shown;  // which the server owns: without one it is gone
  page->link_ = PageLink(page->server_->address(), key);
  PS_TRY(WriteFileAtomically(options.paths.page_key(), key + "\n", 0600));
  PS_TRY(WriteFileAtomically(options.paths.page_link(), page->link_ + "\n", 0600));
  return page;
}

StatusPage::~StatusPage() {
  calls_->End();
  if (board_ != nullptr) {
    board_->End();
  }
  server_.reset();
  ::unlink(paths_.page_link().c_str());
  ::unlink(paths_.page_key().c_str());
}

void StatusPage::Freeze() {
  board_->PutUp(host_->StatusNow(), Duration::zero(), SystemTime().Now());
  board_->End();
  calls_->End();
}

void StatusPage::Show() {
  host_->loop().RunEvery(kTurn, [this] {
    const TimePoint begin = SystemTime().Now();
    if (board_->IsWanted(begin)) {
      proto::JobStatus status = host_->StatusNow();
      const TimePoint end = SystemTime().Now();
      board_->PutUp(std::move(status), end - begin, end);
    }
  });
}

}  // namespace ps::run
