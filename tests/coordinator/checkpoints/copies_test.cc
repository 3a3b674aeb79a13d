// What a host does about copies of checkpoints that an earlier process was to make.

#include "checkpoint/remote/copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "checkpoint/job_store.h"
#include "checkpoint/remote/directory_store.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/coordinator/coordinator_host.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/workload.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

TEST(HostCopiesTest, ACheckpointThatAnEarlierCoordinatorDidNotCopyIsCopied) {
  const TemporaryFolder folder;
  const auto storage = checkpoint::MakeRocksDbStorage();
  const std::string path = folder / "checkpoints";
  Status written;
  checkpoint::RunWorkload(*storage, path, 1, &written);
  ASSERT_TRUE(written.ok()) << written;
  auto store = checkpoint::JobStore::Open(*storage, path, checkpoint::OpenMode::kWrite);
  ASSERT_TRUE(store.ok()) << store.status();
  CoordinatorHost::Options options;
  options.job = SmallJob();
  options.job.config.run.listen = "127.0.0.1";
  options.job.config.checkpoint.path = path;
  options.job.config.checkpoint.copy_to = folder / "copies";
  options.job.checkpoints = {{1, 1, 60}};
  options.job.next_checkpoint = 2;
  options.token = "secret";
  options.control_path = folder / "control";
  options.store = std::move(store).value();
  FakeFleet fleet;
  CoordinatorHost host(std::move(options), &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  host.loop().RunAfter({}, [&] { host.RequestStop("the job is done"); });
  host.Run({.fleet = &fleet, .may_close = [] { return true; }, .on_limit = {}, .on_wait = {}});
  const auto copies = checkpoint::MakeDirectoryStore(folder / "copies");
  EXPECT_THAT(*checkpoint::ListCopies(*copies), ::testing::ElementsAre(1));
}

}  // namespace
}  // namespace ps::coordinator
