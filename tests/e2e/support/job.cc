#include "tests/e2e/support/job.h"

#include <unistd.h>

#include <utility>

namespace ps::e2e {
namespace {

constexpr const char* kDataset = "/usr/share/datasets/fashion-mnist";

}  // namespace

Job::Job(std::string folder)
    : folder_(std::move(folder)), name_("e2e-" + std::to_string(::getpid())) {
  Set("name", "\"" + name_ + "\"");
  Set("model", R"({"name": "mlp"})");
  SetData(4096, 1000);
  Set("optimizer", R"({"kind": "sgd", "lr": 0.02})");
  Set("train", R"({"epochs": 2, "minibatch": 64})");
  Set("servers", R"({"count": 2})");
  Set("workers", R"([{"count": 3}])");
  // Long enough not to take a busy machine for a dead one.
  Set("fleet", kIsSanitized ? R"({"max_detect_s": 10})" : R"({"max_detect_s": 5})");
  SetRun();
}

void Job::SetRun() {
  Set("run", R"({"directory": ")" + runs() + R"(", "metrics_every_s": 0.1})");
}

Job Job::CopyIn(const std::string& folder) const {
  Job copy = *this;
  copy.folder_ = folder;
  copy.SetRun();
  return copy;
}

Job& Job::Set(const std::string& field, const std::string& json) {
  fields_[field] = json;
  return *this;
}

Job& Job::Drop(const std::string& field) {
  fields_.erase(field);
  return *this;
}

Job& Job::SetEndless(const std::string& more) {
  const std::string fields = R"({"epochs": 100000, "minibatch": 32, "evaluate_every_epochs": 0)";
  return Set("train", fields + (more.empty() ? "" : ", ") + more + "}");
}

Job& Job::SetData(uint64_t train_samples, uint64_t test_samples) {
  return Set(
      "data",
      std::string(R"({"directory": ")") + kDataset + R"(", "train_samples": )" +
          std::to_string(train_samples) + R"(, "test_samples": )" + std::to_string(test_samples) +
          "}");
}

std::string Job::Text() const {
  std::string text = "{";
  for (const auto& [field, json] : fields_) {
    text += (text.size() > 1 ? ",\n" : "\n") + ("  \"" + field + "\": ") + json;
  }
  return text + "\n}\n";
}

void E2eTest::SetUp() {
  for (const char* file : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"}) {
    const std::string path = std::string(kDataset) + "/" + file;
    if (::access(path.c_str(), R_OK) != 0 && ::access((path + ".gz").c_str(), R_OK) != 0) {
      GTEST_SKIP() << path << " is missing: install the package dataset-fashion-mnist";
    }
  }
}

Output E2eTest::Psctl(std::vector<std::string> arguments) {
  Process::Options options;
  options.program = "psctl";
  options.arguments = std::move(arguments);
  options.directory = job_.folder();
  options.output_stem = job_.folder() + "/command" + std::to_string(commands_++);
  return RunToEnd(options, kRunPatience);
}

}  // namespace ps::e2e
