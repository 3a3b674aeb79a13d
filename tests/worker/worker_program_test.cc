#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <variant>

#include "tests/worker/worker_program_fixture.h"

namespace ps::worker::test {
namespace {

using net::Event;

// The coordinator is away when a shard fences the worker: its connection is to be made again, and
// the session is to begin anew. Were both done, the coordinator would hear two incarnations.
TEST_F(WorkerProgramTest, AFencedWorkerConnectsOnceAndKeepsItsDataset) {
  ListenAsCoordinator();
  StartWorker();
  const proto::PeerId first = LetJoin(1);
  const Event connected = shard_->Next();
  ASSERT_EQ(connected.hello.incarnation, Incarnation(1));
  EXPECT_EQ(connected.hello.node, "w7") << "it is known by the seat that it was given";
  EXPECT_EQ(NextOf<proto::LeaseRequest>().incarnation, Incarnation(1));

  coordinator_->Do([&](net::Endpoint& endpoint) {
    endpoint.StopListening();
    endpoint.Close(first);
  });
  while (coordinator_->Next().kind != Event::Kind::kClosed) {
  }
  ASSERT_TRUE(sink_.WaitFor("coordinator_lost"));
  proto::Refusal fenced;
  fenced.code = StatusCode::kStale;
  shard_->Send(connected.peer, 0, fenced);
  ASSERT_TRUE(sink_.WaitFor("fenced"));
  for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
    std::filesystem::remove(file.path());  // who reads them again fails
  }

  ListenAsCoordinator();
  const proto::PeerId second = LetJoin(2);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(NextOf<proto::WorkerHeartbeat>().incarnation, Incarnation(2));
  }
  coordinator_->Send(second, 0, proto::Shutdown{"the test is over"});
  std::future<Status> outcome = outcome_.get_future();
  ASSERT_EQ(outcome.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  const Status status = outcome.get();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace ps::worker::test
