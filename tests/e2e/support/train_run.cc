#include "tests/e2e/support/train_run.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "ps/base/host_port.h"
#include "ps/net/client.h"

namespace ps::e2e {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownBytesMax = 3000;

void ShowTail(const std::string& path) {
  const std::string text = ReadText(path);
  const size_t begin = text.size() > kShownBytesMax ? text.size() - kShownBytesMax : 0;
  std::cout << "---- " << path << (begin > 0 ? " (its end)" : "") << "\n" << text.substr(begin);
}

std::string WithoutNewline(std::string text) {
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return text;
}

}  // namespace

TrainRun::TrainRun(const Job& job, const Options& options) : job_(job) {
  job_.Write();
  Process::Options process;
  process.program = "psctl";
  if (!options.before.empty()) {
    process.program = options.before.front();
    process.arguments.assign(options.before.begin() + 1, options.before.end());
  }
  process.arguments.insert(process.arguments.end(), {"train", job_.path()});
  if (!options.is_replacing) {
    process.arguments.insert(process.arguments.end(), {"--set", "fleet.replace=false"});
  }
  process.arguments.insert(
      process.arguments.end(), options.arguments.begin(), options.arguments.end());
  process.directory = job_.folder();
  process.output_stem = job_.folder() + "/psctl";
  process.file_bytes_max = options.file_bytes_max;
  psctl_ = std::make_unique<Process>(process);
}

TrainRun::~TrainRun() {
  const std::vector<std::string> logs = Logs();
  for (const std::string& log : logs) {
    const std::string text = ReadText(log);
    // A process may die of these without the run coming to harm, so nobody else would see it.
    for (const char* mark : {"check failed", "Sanitizer", "runtime error:"}) {
      EXPECT_FALSE(Contains(text, mark)) << mark << " in " << log;
    }
  }
  if (testing::Test::HasFailure()) {
    for (const std::string& log : logs) {
      ShowTail(log);
    }
  }
}

std::vector<std::string> TrainRun::Logs() const {
  std::vector<std::string> logs;
  std::error_code error;
  for (fs::recursive_directory_iterator it(job_.folder(), error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".log" || it->path().extension() == ".err") {
      logs.push_back(it->path().string());
    }
  }
  std::sort(logs.begin(), logs.end());
  return logs;
}

std::string TrainRun::Root() const {
  std::error_code error;
  for (fs::directory_iterator it(job_.runs(), error), end; !error && it != end;
       it.increment(error)) {
    return it->path().string();
  }
  return "";
}

std::optional<HostPort> TrainRun::Address() const {
  const Result<HostPort> address =
      ParseHostPort(WithoutNewline(ReadText(Root() + "/coordinator.addr")));
  return address.ok() ? std::optional<HostPort>(*address) : std::nullopt;
}

int64_t TrainRun::CoordinatorPid() const {
  return std::atoll(ReadText(Root() + "/psctl.pid").c_str());
}

void TrainRun::KillCoordinator() {
  const int64_t coordinator = CoordinatorPid();
  ASSERT_GT(coordinator, 0);
  psctl_->Signal(SIGKILL);
  ::kill(static_cast<pid_t>(coordinator), SIGKILL);
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(coordinator); }));
}

std::string TrainRun::Token() const {
  const std::string text = ReadText(Root() + "/token");
  return text.substr(0, text.find('\n'));
}

std::optional<proto::JobStatus> TrainRun::Status() const {
  proto::Hello hello;
  hello.role = proto::Role::kControl;
  hello.node = "e2e";
  Result<proto::Message> reply =
      net::Call(ControlSocket(), hello, proto::StatusRequest{}, kPatience);
  if (!reply.ok() || !std::holds_alternative<proto::StatusReply>(*reply)) {
    return std::nullopt;
  }
  return std::get<proto::StatusReply>(std::move(reply).value()).status;
}

std::optional<proto::JobStatus> TrainRun::WaitFor(
    const std::function<bool(const proto::JobStatus&)>& is_wanted, Duration deadline) {
  std::optional<proto::JobStatus> status;
  const auto is_there = [&] {
    status = Status();
    return status.has_value() && is_wanted(*status);
  };
  bool has_come = false;
  WaitUntil([&] { return (has_come = is_there()) || !psctl_->IsRunning(); }, deadline);
  return has_come ? status : std::nullopt;
}

std::optional<proto::JobStatus> TrainRun::WaitForSamples(uint64_t samples) {
  return WaitFor([&](const proto::JobStatus& s) { return s.samples_counted >= samples; });
}

std::unique_ptr<Process> TrainRun::StartByHand(
    const std::string& program, const std::vector<std::string>& arguments) {
  const std::optional<HostPort> address = Address();
  if (!address.has_value()) {
    ADD_FAILURE() << "the coordinator does not listen";
    return nullptr;
  }
  Process::Options options;
  options.program = program;
  options.arguments = {
      "--coordinator",
      address->host + ":" + std::to_string(address->port),
      "--token-file",
      Root() + "/token"};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.directory = job_.folder();
  options.output_stem = job_.folder() + "/hand" + std::to_string(hand_started_++);
  return std::make_unique<Process>(options);
}

ProcessEnd TrainRun::WaitForEnd(Duration deadline) {
  const std::optional<ProcessEnd> end = psctl_->Wait(deadline);
  EXPECT_TRUE(end.has_value()) << "the run does not end";
  return end.value_or(ProcessEnd{-1, 0});
}

Json TrainRun::Summary() const {
  const std::string path = Root() + "/summary.json";
  const std::string text = ReadText(path);
  const std::optional<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.has_value()) << path << ": no JSON: " << text;
  return json.value_or(Json());
}

void TrainRun::ExpectExactLedger() const {
  const Json summary = Summary();
  EXPECT_EQ(summary["samples_counted"].number(), summary["samples_total"].number());
  const Json& ledger = summary["ledger"];
  EXPECT_EQ(static_cast<double>(ledger.size()), summary["epochs"].number());
  for (size_t i = 0; i < ledger.size(); ++i) {
    EXPECT_EQ(ledger[i]["samples_counted"].number(), ledger[i]["samples_total"].number()) << i;
    EXPECT_EQ(ledger[i]["samples_leased"].number(), 0) << i;
  }
}

std::vector<int64_t> TrainRun::Children(const std::string& program) const {
  std::vector<int64_t> pids = ProcessesNaming(job_.runs());
  std::erase_if(pids, [&](int64_t pid) {
    return pid == psctl_->pid() || !Contains(CommandLine(pid), program);
  });
  return pids;
}

void TrainRun::ExpectNothingLeft() const {
  WaitUntil([this] { return Children().empty(); });
  for (const int64_t pid : Children()) {
    ADD_FAILURE() << "left over: " << CommandLine(pid);
  }
}

void ExpectConsistentLedger(const Json& summary) {
  double of_workers = 0;
  for (size_t i = 0; i < summary["workers"].size(); ++i) {
    of_workers += summary["workers"][i]["samples_counted"].number();
  }
  constexpr int kGoneRowsMax = 64;  // beyond these the first ones have no row any more
  const double of_others = summary["samples_of_other_workers"].number();
  EXPECT_EQ(of_workers + of_others, summary["samples_counted"].number());
  EXPECT_TRUE(of_others == 0 || summary["joins"].number() > kGoneRowsMax) << of_others;
  double of_epochs = 0;
  for (size_t i = 0; i < summary["ledger"].size(); ++i) {
    const Json& epoch = summary["ledger"][i];
    EXPECT_LE(epoch["samples_counted"].number(), epoch["samples_total"].number()) << i;
    EXPECT_EQ(epoch["samples_leased"].number(), 0) << i;
    of_epochs += epoch["samples_counted"].number();
  }
  EXPECT_EQ(of_epochs, summary["samples_counted"].number());
}

Json StopCleanly(TrainRun* run) {
  run->psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run->WaitForEnd(), ProcessEnd{});
  run->ExpectNothingLeft();
  const Json summary = run->Summary();
  EXPECT_EQ(summary["state"].text(), "stopped");
  ExpectConsistentLedger(summary);
  return summary;
}

size_t CountOf(const proto::JobStatus& status, const std::string& type) {
  const auto row = std::ranges::find(status.fleet, type, &proto::FleetRow::type);
  return row == status.fleet.end() ? 0 : row->present;
}

std::vector<proto::WorkerRow> Alive(const proto::JobStatus& status) {
  std::vector<proto::WorkerRow> rows;
  for (const proto::WorkerRow& row : status.workers) {
    const bool has_left = row.is_gone() && row.state != proto::WorkerRowState::kFailed;
    if (!has_left && row.incarnation != Incarnation()) {
      rows.push_back(row);
    }
  }
  return rows;
}

bool Contains(const std::string& text, const std::string& sub) {
  return text.find(sub) != std::string::npos;
}

}  // namespace ps::e2e
