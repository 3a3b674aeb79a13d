#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/e2e/support/process.h"

namespace ps::e2e {

/// A job file: one JSON text per top-level field. As made it is a small model on a small part of
/// Fashion-MNIST that ends within seconds.
class Job {
 public:
  /// The file, and the folder with the runs, are made in `folder`.
  explicit Job(std::string folder);

  /// Replaces a whole section: Set("workers", R"([{"count": 4}])").
  Job& Set(const std::string& field, const std::string& json);
  /// Leaves a section out.
  Job& Drop(const std::string& field);
  /// A train section for a job that does not end by itself; `more` are further fields of it. Every
  /// test that waits for something while a run trains has such a job, and ends it with StopCleanly:
  /// of a job with an end, a faster machine would be done before what the test waits for, and a
  /// slower one takes longer for both.
  Job& SetEndless(const std::string& more = "");
  /// The default data section with other sizes.
  Job& SetData(uint64_t train_samples, uint64_t test_samples);

  /// The same job in another folder; a run section that was set is not kept.
  Job CopyIn(const std::string& folder) const;

  const std::string& name() const { return name_; }

  const std::string& folder() const { return folder_; }

  std::string path() const { return folder_ + "/" + name_ + ".json"; }

  /// Parent of the run directories.
  std::string runs() const { return folder_ + "/runs"; }

  std::string Text() const;

  void Write() const { WriteText(path(), Text()); }

 private:
  void SetRun();

  std::string folder_;
  std::string name_;
  std::map<std::string, std::string> fields_;
};

/// Base of all suites here: a folder per test, and a skip where the dataset is not installed.
class E2eTest : public testing::Test {
 protected:
  void SetUp() override;

  /// psctl to its end; what it was told is beside the job.
  Output Psctl(std::vector<std::string> arguments);

  TemporaryFolder folder_;
  Job job_{folder_.path()};

 private:
  int commands_ = 0;
};

}  // namespace ps::e2e
