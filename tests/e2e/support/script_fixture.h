#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/e2e/support/job.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {

/// Jobs of programs of others, which need no data of ours.
class ScriptTest : public E2eTest {
 protected:
  void SetUp() override {
    // Slow enough for gradients that are a few steps old.
    job_.Drop("model").Drop("data").Set("optimizer", R"({"kind": "sgd", "lr": 0.1})");
    job_.Set("train", R"({"epochs": 4, "minibatch": 20})").Set("workers", R"([{"count": 2}])");
    ::setenv("PYTHONPATH", PS_PYTHON_DIR, 1);
    ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  }

  ~ScriptTest() override {
    ::unsetenv("PYTHONPATH");
    ::unsetenv("PYTHONDONTWRITEBYTECODE");
  }

  /// `words`: as JSON, behind the program.
  void SetProgram(const std::string& program, const std::string& words = "") {
    job_.Set("worker", R"({"program": [)" + program + words + "]}");
  }

  void SetC(const std::string& words = "") {
    SetProgram('"' + std::string(PS_LINEAR) + '"', words);
  }

  void SetPython(const std::string& words = "") {
    SetProgram(R"("/usr/bin/python3", ")" PS_E2E_SOURCE_DIR R"(/programs/linear.py")", words);
  }

  /// The last `count` floats of the run's model: data lie at the end of the file.
  static std::vector<float> ModelOf(const TrainRun& run, size_t count) {
    return LastValuesOf(run.Root() + "/model.safetensors", count);
  }

  static std::vector<float> LastValuesOf(const std::string& path, size_t count) {
    const std::string file = ReadText(path);
    std::vector<float> values(count);
    EXPECT_GE(file.size(), count * sizeof(float));
    std::memcpy(
        values.data(), file.data() + file.size() - count * sizeof(float), count * sizeof(float));
    return values;
  }

  static void ExpectLearned(const TrainRun& run) {
    const std::vector<float> model = ModelOf(run, 3);
    EXPECT_NEAR(model[0], 3, 0.05);
    EXPECT_NEAR(model[1], -2, 0.05);
    EXPECT_NEAR(model[2], 0.5, 0.05);
  }
};

}  // namespace ps::e2e
