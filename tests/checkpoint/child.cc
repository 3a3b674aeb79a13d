// What the tests of other processes start: checkpoint_child PATH hold | CHANGES.
//   hold     opens the job's database, prints a line and waits for the end of its input
//   CHANGES  runs the workload, and is killed after so many changes of files

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "checkpoint/job_store.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "tests/checkpoint/faulty_files.h"
#include "tests/checkpoint/workload.h"

int main(int argc, char** argv) {
  namespace checkpoint = ps::checkpoint;
  if (argc != 3) {
    return 2;
  }
  const std::string path = argv[1];
  const std::string how = argv[2];
  if (how == "hold") {
    const auto storage = checkpoint::MakeRocksDbStorage();
    const auto store = checkpoint::JobStore::Open(*storage, path, checkpoint::OpenMode::kWrite);
    std::printf("%s\n", store.status().ToString().c_str());
    std::fflush(stdout);
    char byte = 0;
    return ::read(STDIN_FILENO, &byte, 1) == 0 && store.ok() ? 0 : 1;
  }
  checkpoint::FaultyFiles files;
  files.KillAfter(std::strtoull(how.c_str(), nullptr, 10));
  ps::Status end;
  checkpoint::RunWorkload(*checkpoint::MakeRocksDbStorage(files.env()), path, 2, &end);
  return end.ok() ? 0 : 1;
}
