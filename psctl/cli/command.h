#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "run/directory/run_registry.h"
#include "run/report/console.h"

namespace ps::psctl {

class Arguments;
struct Command;

/// All commands of the program, in the order of its help.
using Commands = std::span<const Command* const>;

/// What a command works with.
struct Session {
  const run::Console& console;
  const run::RunRegistry& registry;
  Commands commands;
  std::string today;                        // as "2026-07-20", for the age of prices
  std::span<const std::string> words = {};  // all that was typed behind psctl
};

/// A command whose arguments were read.
class Invocation {
 public:
  virtual ~Invocation() = default;

  /// Returns the exit code.
  virtual int Run(const Session& session) const = 0;
};

/// What `psctl --help` lists together.
enum class Group { kRun, kWatch, kSteer, kKeep, kPlan, kMeasure, kHelp };

struct Example {
  std::string_view typed;
  std::string_view text;
};

/// One command: the parser, the help, the man page and the completion scripts are made of it.
struct Command {
  std::string_view path;  // "train", "catalog show"
  Group group = Group::kHelp;
  std::string_view help;  // one line
  std::array<Example, 5> examples = {};
  /// Adds the arguments, and returns what they fill in. Null: a family, whose commands follow. One
  /// with arguments of its own may have commands as well: their names win over its words.
  std::unique_ptr<Invocation> (*declare)(Arguments* arguments) = nullptr;
};

/// An Invocation with the values of its arguments, which are of a plain struct.
template <typename Values>
class InvocationOf final : public Invocation {
 public:
  using Runner = int (*)(const Values& values, const Session& session);

  explicit InvocationOf(Runner run) : run_(run) {}

  int Run(const Session& session) const override { return run_(values, session); }

  Values values;

 private:
  const Runner run_;
};

/// For Command::declare: `add` says where each argument goes, `run` is what the command does.
template <
    typename Values,
    void (*add)(Values* values, Arguments* arguments),
    int (*run)(const Values& values, const Session& session)>
std::unique_ptr<Invocation> Declare(Arguments* arguments) {
  auto invocation = std::make_unique<InvocationOf<Values>>(run);
  add(&invocation->values, arguments);
  return invocation;
}

/// "show" of "catalog show".
std::string_view LastWord(std::string_view path);

/// "catalog" of "catalog show"; empty for a command of psctl itself.
std::string_view FamilyOf(std::string_view path);

}  // namespace ps::psctl
