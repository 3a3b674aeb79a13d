#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ps::psctl {

/// An argument that was just added, for what else is to be said of it.
class Argument final {
 public:
  Argument(CLI::App* app, CLI::Option* option) : app_(app), option_(option) {}

  Argument Required();
  /// What the help calls its value: "FILE".
  Argument Value(const std::string& name);
  /// A list's values may be typed in one word, with commas between them.
  Argument Separated();
  Argument Needs(const std::string& other);
  Argument Excludes(const std::string& other);
  /// Whether it was typed, once all was parsed.
  bool is_given() const;

 private:
  CLI::App* const app_;
  CLI::Option* const option_;
};

/// The arguments of a command. Each goes to a value, which says what holds when it is not typed.
/// `names`: "--json" or "-o,--output" of a flag, "JOB.json" of what is known by its place, or both,
/// "FILE,--catalog". A list that is a flag takes one value each time it is given. The values
/// outlive the parser.
class Arguments final {
 public:
  explicit Arguments(CLI::App* app) : app_(app) {}

  Argument Add(const std::string& names, bool* value, const std::string& help);
  Argument Add(const std::string& names, std::string* value, const std::string& help);
  Argument Add(const std::string& names, double* value, const std::string& help);
  Argument Add(const std::string& names, std::optional<double>* value, const std::string& help);
  Argument Add(const std::string& names, int* value, const std::string& help);
  Argument Add(const std::string& names, uint32_t* value, const std::string& help);
  Argument Add(const std::string& names, uint64_t* value, const std::string& help);
  Argument Add(const std::string& names, std::vector<std::string>* value, const std::string& help);
  Argument Add(const std::string& names, std::vector<int>* value, const std::string& help);

  /// A text that `take` makes something of. Its errors, kInvalidArgument and one line, are shown as
  /// they are.
  Argument AddText(
      const std::string& names,
      std::function<Status(const std::string& text)> take,
      const std::string& help);

  /// "40m", "1h30m", "90": seconds, above 0.
  Argument AddDuration(const std::string& names, double* seconds, const std::string& help);
  /// The same, of a time that may be 0.
  Argument AddDurationOrZero(const std::string& names, double* seconds, const std::string& help);

  /// --set KEY=VALUE.
  void AddSettings(std::vector<proto::ConfigOverride>* settings, const std::string& help);

  /// JOB: the run that a command is about, which needs no name while it is the only one.
  void AddRun(std::string* job);

  /// Refuses 0 where it is typed: the value is that when it is not. `wanted`: the error.
  template <typename T>
  void RefuseZero(const Argument& argument, const T* value, std::string wanted) {
    checks_.push_back([=] {
      return argument.is_given() && *value == T{} ? Status::InvalidArgument(wanted) : Status::Ok();
    });
  }

  /// What has to hold of all values together. Errors: as of AddText.
  void Check(std::function<Status()> check) { checks_.push_back(std::move(check)); }

  /// To be called when all was parsed. Errors: the first of AddText and Check, in the order in
  /// which they were added.
  Status Finish() const;

 private:
  CLI::App* const app_;
  // Deques, whose elements stay where they are.
  std::deque<std::string> texts_;
  std::deque<std::vector<std::string>> lists_;
  std::vector<std::function<Status()>> checks_;
};

}  // namespace ps::psctl
