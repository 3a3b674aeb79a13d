#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>

#include "tests/net/test_node.h"
#include "tests/worker/data/data_files.h"
#include "tests/worker/model/model_builder.h"
#include "worker/worker_program.h"

namespace ps::worker::test {

/// Log lines, for a test that has to wait until the worker has noticed something.
class WaitingSink final : public LogSink {
 public:
  void Write(LogLevel /*level*/, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    text_ += line;
    changed_.notify_all();
  }

  bool WaitFor(const std::string& event) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] {
      return text_.find("event=" + event) != std::string::npos;
    });
  }

  std::string Text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

/// A worker process on a thread of its own between two nodes that the test speaks for.
class WorkerProgramTest : public testing::Test {
 protected:
  WorkerProgramTest() {
    WriteIdxSet(folder_, 20, 7);
    config_.name = "rejoin";
    config_.data.directory = folder_.path();
    config_.model.layers = {Flatten(), Linear(3)};
    config_.workers = {proto::WorkerGroup{}};
    config_.fleet.max_detect_s = 1;
    shard_port_ = shard_->Listen();
  }

  /// A worker that was not told to leave does so when it finds nobody for a while.
  ~WorkerProgramTest() override {
    coordinator_.reset();
    shard_.reset();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  /// `device`: as a job file has it.
  void StartWorker(const std::string& device = "cpu") {
    WorkerProgram::Options options;
    options.coordinator_host = "127.0.0.1";
    options.coordinator_port = reserved_.port();
    options.token = net::kTestToken;
    options.open_device = OpenDevice;
    options.make_trainer = make_trainer_;
    options.device = device;
    options.link_threads = link_threads_;
    thread_ = std::thread([this, options] {
      WorkerProgram program(options, &log_);
      outcome_.set_value(program.Run());
    });
  }

  void ListenAsCoordinator() {
    coordinator_->Do([this](net::Endpoint& endpoint) {
      EXPECT_TRUE(endpoint.Listen("127.0.0.1", reserved_.port()).ok());
    });
  }

  /// The worker's next connection to the coordinator, by which it asks to join; it is let in.
  proto::PeerId LetJoin(uint64_t incarnation) {
    const net::Event connected = coordinator_->Next();
    EXPECT_EQ(connected.kind, net::Event::Kind::kConnected);
    EXPECT_EQ(connected.hello.incarnation, Incarnation()) << "a session that is over connects";
    const net::Event join = coordinator_->Next();
    EXPECT_TRUE(std::holds_alternative<proto::JoinRequest>(join.message));
    coordinator_->Send(connected.peer, join.request_id, ReplyOf(incarnation));
    return connected.peer;
  }

  /// It has loaded its data, and is told anew where everything is.
  void LetJoinAgain(proto::PeerId peer, uint64_t incarnation) {
    static_cast<void>(NextOf<proto::JoinRequest>());
    coordinator_->Send(peer, 0, ReplyOf(incarnation));
  }

  proto::JoinReply ReplyOf(uint64_t incarnation) const {
    proto::JoinReply reply;
    reply.worker = WorkerId(7);
    reply.incarnation = Incarnation(incarnation);
    reply.generation = Generation(incarnation);
    reply.config_json = proto::PrintJobConfig(config_);
    reply.shards = {{ShardId(0), "127.0.0.1", shard_port_}};
    reply.placement.version = 1;
    reply.placement.chunks = {
        {MakeChunkKey(0, 0), 18, 0, ShardId(0)}, {MakeChunkKey(1, 0), 3, 0, ShardId(0)}};
    reply.minibatch = 4;
    reply.device = "cpu";
    return reply;
  }

  /// The second of the two tensors is on a shard of its own, which listens at `port`.
  proto::JoinReply ReplyOfTwoShards(uint64_t incarnation, uint32_t port) const {
    proto::JoinReply reply = ReplyOf(incarnation);
    reply.shards.push_back({ShardId(1), "127.0.0.1", port});
    reply.placement.chunks[1].shard = ShardId(1);
    return reply;
  }

  /// The next message of this kind to the coordinator. Nobody may connect meanwhile.
  template <typename T>
  T NextOf() {
    while (true) {
      net::Event event = coordinator_->Next();
      if (event.kind != net::Event::Kind::kMessage) {
        ADD_FAILURE() << "a connection comes or goes, or nothing comes\n" << sink_.Text();
        return {};
      }
      if (const T* message = std::get_if<T>(&event.message)) {
        return *message;
      }
    }
  }

  /// Until the worker's process has ended.
  Status WaitForOutcome() {
    std::future<Status> outcome = outcome_.get_future();
    EXPECT_EQ(outcome.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    return outcome.get();
  }

  Loader::Make make_trainer_ = Trainer::Make;
  size_t link_threads_ = 0;
  const DataFolder folder_;
  proto::JobConfig config_;
  const net::ReservedPort reserved_;
  WaitingSink sink_;
  const Logger log_{"w", &SystemTime(), &sink_};
  std::unique_ptr<net::TestNode> coordinator_ =
      std::make_unique<net::TestNode>(net::TestOptions("c"));
  std::unique_ptr<net::TestNode> shard_ = std::make_unique<net::TestNode>(net::TestOptions("s0"));
  uint32_t shard_port_ = 0;
  std::promise<Status> outcome_;
  std::thread thread_;
};

}  // namespace ps::worker::test
