#include "psctl/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ps/base/text.h"
#include "psctl/commands.h"
#include "psctl/models/export_command.h"
#include "psctl/models/model_command.h"
#include "psctl/plan/catalog_command.h"
#include "psctl/runs/attach_command.h"
#include "psctl/runs/check_command.h"
#include "psctl/runs/checkpoint_command.h"
#include "psctl/runs/fleet_command.h"
#include "psctl/runs/mode_command.h"
#include "psctl/runs/runs_command.h"
#include "psctl/runs/set_command.h"
#include "psctl/runs/status_command.h"
#include "psctl/runs/stop_command.h"
#include "psctl/runs/top_command.h"
#include "psctl/runs/train_command.h"
#include "psctl/traces/replay_command.h"

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

template <typename T>
T Parse(const std::vector<std::string>& arguments) {
  const auto invocation = ParseCommandLine(AllCommands(), arguments);
  EXPECT_TRUE(invocation.ok()) << invocation.status();
  const auto* typed =
      invocation.ok() ? dynamic_cast<const InvocationOf<T>*>(invocation->get()) : nullptr;
  if (typed == nullptr) {
    ADD_FAILURE() << "another command";
    return {};
  }
  return typed->values;
}

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const auto invocation = ParseCommandLine(AllCommands(), arguments);
  EXPECT_EQ(invocation.status().code(), StatusCode::kInvalidArgument);
  const std::string message(invocation.status().message());
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  return message;
}

/// What it prints, on stdout and stderr.
std::string Printed(const std::vector<std::string>& arguments) {
  std::string text;
  run::Console console;
  console.out = [&text](std::string_view more) { text += more; };
  console.err = console.out;
  RunPsctl(arguments, console, run::RunRegistry("", {}));
  return text;
}

TEST(CommandTest, EveryExampleIsOneOfItsCommandAndCanBeTyped) {
  for (const Command* command : AllCommands()) {
    for (const Example& example : command->examples) {
      if (example.typed.empty()) {
        continue;
      }
      const std::string_view typed = example.typed.substr(0, example.typed.find(" >"));
      ASSERT_TRUE(typed.starts_with("psctl " + std::string(command->path))) << typed;
      std::vector<std::string> words;
      std::istringstream in{std::string(typed.substr(sizeof("psctl ") - 1))};
      for (std::string word; in >> word;) {
        words.push_back(word);
      }
      const auto invocation = ParseCommandLine(AllCommands(), words);
      EXPECT_TRUE(invocation.ok()) << typed << ": " << invocation.status();
    }
  }
}

TEST(CommandTest, ACommandIsOfAFamilyThatComesBefore) {
  std::set<std::string_view> families;
  for (const Command* command : AllCommands()) {
    const std::string_view family = FamilyOf(command->path);
    EXPECT_TRUE(family.empty() || families.contains(family)) << command->path;
    if (family.empty()) {
      families.insert(command->path);
    }
  }
}

TEST(CommandLineTest, HelpListsCommandsByWhatTheyAreForAndShowsTheirExamples) {
  const std::string help = Printed({"--help"});
  EXPECT_LT(help.find("Run a job:"), help.find("Change it while it runs:"));
  EXPECT_THAT(
      Printed({"help", "scale"}),
      AllOf(HasSubstr("Examples:"), HasSubstr("psctl scale workers=8"), Not(HasSubstr("train"))));
}

TEST(CommandLineTest, ACommandWithWordsOfItsOwnMayBeAFamilyToo) {
  EXPECT_EQ(Parse<ModelCommand>({"model", "job.json"}).job_path, "job.json");
  const auto exported = Parse<ExportCommand>({"model", "export", "mnist", "--pytorch", "m.py"});
  EXPECT_EQ(exported.choice.model, "mnist");
  EXPECT_EQ(exported.target, "m.py");
  EXPECT_THAT(ErrorOf({"model"}), HasSubstr("model wants JOB.json"));
  EXPECT_THAT(ErrorOf({"model", "export"}), HasSubstr("model export wants MODEL"));
  EXPECT_THAT(ErrorOf({"model", "job.json", "more"}), HasSubstr("too many arguments"));
  EXPECT_THAT(ErrorOf({"model", "export", "mnist", "--py", "m.py"}), HasSubstr("unknown flag"));
  const std::string manual = Printed({"help", "--man"});
  EXPECT_THAT(manual, AllOf(HasSubstr("psctl model"), HasSubstr("psctl model export")));
}

TEST(CommandLineTest, ARunIsDetachedFromAndAttachedTo) {
  EXPECT_TRUE(Parse<TrainCommand>({"train", "job.json", "--detach"}).is_detached);
  EXPECT_FALSE(Parse<TrainCommand>({"train", "job.json"}).is_detached);
  EXPECT_TRUE(Parse<run::ResumeOrder>({"resume", "runs/a", "--detach"}).is_detached);
  EXPECT_EQ(Parse<AttachCommand>({"attach"}).job, "");
  const auto attach = Parse<AttachCommand>({"attach", "mnist", "--json"});
  EXPECT_EQ(attach.job, "mnist");
  EXPECT_TRUE(attach.is_json);
}

TEST(CommandLineTest, TrainTakesAJobFileAndItsFlags) {
  const auto train = Parse<TrainCommand>({"train", "job.json", "--json", "--print-config"});
  EXPECT_EQ(train.job_path, "job.json");
  EXPECT_TRUE(train.is_json);
  EXPECT_TRUE(train.only_prints_config);
  EXPECT_TRUE(train.overrides.empty());
}

TEST(CommandLineTest, SettingsMayBeRepeatedOrListed) {
  const auto train = Parse<TrainCommand>(
      {"train", "--set", "train.epochs=1", "train.seed=2", "job.json", "--set", "name=a=b"});
  EXPECT_EQ(train.job_path, "job.json");
  ASSERT_EQ(train.overrides.size(), 3U);
  EXPECT_EQ(train.overrides[0].key, "train.epochs");
  EXPECT_EQ(train.overrides[1].value, "2");
  EXPECT_EQ(train.overrides[2].key, "name");
  EXPECT_EQ(train.overrides[2].value, "a=b");
}

TEST(CommandLineTest, ASettingMayHaveAnEmptyOrNegativeValue) {
  const auto train = Parse<TrainCommand>({"train", "job.json", "--set=a=", "--set", "b=-1"});
  ASSERT_EQ(train.overrides.size(), 2U);
  EXPECT_EQ(train.overrides[0].value, "");
  EXPECT_EQ(train.overrides[1].value, "-1");
}

TEST(CommandLineTest, WhatIsTypedIsMadePrintableInErrors) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"plan", "--budget", "\x1b[2J"}, {"\x1b[2J"}, {"status", "a", "\x1b[2J"}}) {
    const auto command = ParseCommandLine(AllCommands(), words);
    ASSERT_FALSE(command.ok());
    EXPECT_EQ(command.status().message(), Printable(command.status().message()));
  }
}

TEST(CommandLineTest, WordsForPeopleAreNotAskedForTogetherWithJson) {
  EXPECT_THAT(
      ErrorOf({"plan", "--profile", "p.json", "--loss", "1", "--json", "--explain"}),
      AllOf(HasSubstr("--explain"), HasSubstr("--json")));
}

TEST(CommandLineTest, TheJobIsOptionalWhereOneCanBeFound) {
  EXPECT_EQ(Parse<StatusCommand>({"status"}).job, "");
  EXPECT_EQ(Parse<StatusCommand>({"status", "runs/a"}).job, "runs/a");
  EXPECT_TRUE(Parse<StatusCommand>({"status", "--json"}).is_json);
  EXPECT_EQ(Parse<WhyCommand>({"why", "a"}).job, "a");
  EXPECT_TRUE(Parse<StopCommand>({"stop", "a", "--now"}).is_immediate);
  EXPECT_FALSE(Parse<StopCommand>({"stop"}).is_immediate);
}

TEST(CommandLineTest, ANoticeNamesAWorkerAndMayNameItsGraceAndARun) {
  const auto notice = Parse<NoticeCommand>({"notice", "3"});
  EXPECT_EQ(notice.worker, 3U);
  EXPECT_EQ(notice.grace_s, 10);
  EXPECT_EQ(notice.job, "");
  const auto full = Parse<NoticeCommand>({"notice", "w12", "runs/a", "--grace", "2m"});
  EXPECT_EQ(full.worker, 12U);
  EXPECT_FALSE(full.is_server);
  const auto server = Parse<NoticeCommand>({"notice", "s1"});
  EXPECT_EQ(server.worker, 1U);
  EXPECT_TRUE(server.is_server);
  EXPECT_EQ(full.grace_s, 120);
  EXPECT_EQ(full.job, "runs/a");
}

TEST(CommandLineTest, ANoticeThatMakesNoSenseSaysHowToGiveOne) {
  for (const char* worker : {"runs/a", "w", "s", "ws1", "3x", "16384", "99999999999"}) {
    EXPECT_THAT(ErrorOf({"notice", worker}), HasSubstr("as in: psctl notice 3; got '"));
  }
  EXPECT_THAT(ErrorOf({"notice"}), HasSubstr("notice wants WORKER"));
  EXPECT_THAT(ErrorOf({"notice", "3", "--grace", "soon"}), HasSubstr("--grace wants a time"));
  EXPECT_THAT(ErrorOf({"notice", "3", "--grace", "-1"}), HasSubstr("--grace wants a time"));
  EXPECT_THAT(ErrorOf({"notice", "3", "--grace", "0"}), HasSubstr("--grace wants a time"));
  EXPECT_THAT(ErrorOf({"notice", "3", "--grace", "2h"}), HasSubstr("at most an hour"));
}

TEST(CommandLineTest, ScaleNamesGroupsAndAJob) {
  const auto scale = Parse<ScaleCommand>({"scale", "workers=8"});
  ASSERT_EQ(scale.changes.size(), 1U);
  EXPECT_EQ(scale.changes[0].type, "");
  EXPECT_EQ(scale.changes[0].count, 8);
  EXPECT_FALSE(scale.changes[0].is_relative);
  EXPECT_FALSE(scale.is_waiting);
  const auto many = Parse<ScaleCommand>(
      {"scale", "runs/a", "g4dn.xlarge+=2,cpu-slow-=1", "workers-=3", "--wait"});
  EXPECT_EQ(many.job, "runs/a");
  EXPECT_TRUE(many.is_waiting);
  ASSERT_EQ(many.changes.size(), 3U);
  EXPECT_EQ(many.changes[0].type, "g4dn.xlarge");
  EXPECT_EQ(many.changes[0].count, 2);
  EXPECT_TRUE(many.changes[0].is_relative);
  EXPECT_EQ(many.changes[1].type, "cpu-slow");
  EXPECT_EQ(many.changes[1].count, -1);
  EXPECT_EQ(many.changes[2].type, "");
  EXPECT_EQ(many.changes[2].count, -3);
}

TEST(CommandLineTest, ScaleWaitsForAsLongAsIsSaid) {
  EXPECT_EQ(Parse<ScaleCommand>({"scale", "workers=8", "--wait"}).wait_max_s, INFINITY);
  EXPECT_EQ(
      Parse<ScaleCommand>({"scale", "workers=8", "--wait", "--timeout", "5m"}).wait_max_s, 300);
  EXPECT_THAT(
      ErrorOf({"scale", "workers=8", "--wait", "--timeout", "soon"}),
      HasSubstr("--timeout wants a time"));
  EXPECT_THAT(
      ErrorOf({"scale", "workers=8", "--timeout", "5m"}),
      HasSubstr("--timeout of scale is for --wait"));
}

TEST(CommandLineTest, ScaleSaysWhatItWants) {
  for (const char* change :
       {"workers=",
        "workers=-1",
        "=3",
        "workers=2,",
        "workers=2,,a=1",
        "workers=1.5",
        "workers=20000",
        "+=1",
        "a=b",
        "workers=1:2",
        "servers+=1:2",
        "servers=1:0",
        "servers=1:",
        "servers=1:2000"}) {
    const std::string error = ErrorOf({"scale", change});
    EXPECT_THAT(error, HasSubstr("as in: psctl scale workers=8")) << change;
  }
  EXPECT_THAT(ErrorOf({"scale"}), HasSubstr("scale wants CHANGE"));
  EXPECT_THAT(ErrorOf({"scale", "runs/a"}), HasSubstr("there is none"));
  EXPECT_THAT(ErrorOf({"scale", "a", "b", "workers=1"}), HasSubstr("one job can be named"));
  const auto scale = Parse<ScaleCommand>({"scale", "servers-=1"});
  ASSERT_EQ(scale.changes.size(), 1U);
  EXPECT_TRUE(scale.changes[0].is_servers);
  EXPECT_EQ(scale.changes[0].count, -1);
  const auto shares = Parse<ScaleCommand>({"scale", "servers=2:1:1,workers=4"});
  ASSERT_EQ(shares.changes.size(), 2U);
  EXPECT_EQ(shares.changes[0].shares, (std::vector<uint32_t>{2, 1, 1}));
  EXPECT_EQ(shares.changes[0].count, 3);
}

TEST(CommandLineTest, MoveNamesATensorAndAServer) {
  const auto move = Parse<MoveCommand>({"move", "fc1.weight:2", "1", "runs/a", "--wait"}).scale;
  ASSERT_EQ(move.changes.size(), 1U);
  EXPECT_EQ(move.changes[0].tensor, "fc1.weight");
  EXPECT_EQ(move.changes[0].chunk, 2);
  EXPECT_EQ(move.changes[0].count, 1);
  EXPECT_EQ(move.job, "runs/a");
  EXPECT_TRUE(move.is_waiting);
  EXPECT_EQ(Parse<MoveCommand>({"move", "a:b", "any"}).scale.changes[0].tensor, "a:b");
  EXPECT_EQ(Parse<MoveCommand>({"move", "a", "any"}).scale.changes[0].count, -1);
  EXPECT_EQ(Parse<MoveCommand>({"move", "a", "any"}).scale.changes[0].chunk, -1);
  EXPECT_THAT(ErrorOf({"move", "a", "s1"}), HasSubstr("as in: psctl move a 1; got 's1'"));
  EXPECT_THAT(ErrorOf({"move", ":1", "1"}), HasSubstr("the name of a tensor"));
}

TEST(CommandLineTest, DrainTakesAWorker) {
  const auto drain = Parse<DrainCommand>({"drain", "w3", "runs/a", "--grace", "2m"});
  EXPECT_EQ(drain.worker, 3U);
  EXPECT_EQ(drain.grace_s, 120);
  EXPECT_EQ(drain.job, "runs/a");
  EXPECT_EQ(Parse<DrainCommand>({"drain", "0"}).grace_s, 60);
  EXPECT_THAT(ErrorOf({"drain", "s1"}), HasSubstr("as in: psctl drain 3; got 's1'"));
}

TEST(CommandLineTest, ModesAreNamedAndSspMayHaveABound) {
  using proto::Mode;
  EXPECT_EQ(Parse<ModeCommand>({"mode", "bsp"}).wanted, (proto::ModeChoice{Mode::kBsp}));
  EXPECT_EQ(Parse<ModeCommand>({"mode", "ssp"}).wanted, (proto::ModeChoice{Mode::kSsp, 3}));
  const auto bounded = Parse<ModeCommand>({"mode", "ssp:7", "runs/a", "--wait"});
  EXPECT_EQ(bounded.wanted, (proto::ModeChoice{Mode::kSsp, 7}));
  EXPECT_EQ(bounded.job, "runs/a");
  EXPECT_TRUE(bounded.is_waiting);
  EXPECT_THAT(ErrorOf({"mode", "sync"}), HasSubstr("async, bsp, ssp or a staleness bound"));
  EXPECT_THAT(ErrorOf({"mode", "bsp:2"}), HasSubstr("only ssp has a bound"));
  EXPECT_THAT(ErrorOf({"mode", "ssp:0"}), HasSubstr("a whole number from 1 on"));
  EXPECT_THAT(ErrorOf({"mode", "ssp:"}), HasSubstr("a whole number from 1 on"));
  EXPECT_THAT(ErrorOf({"mode"}), HasSubstr("MODE"));
}

TEST(CommandLineTest, SetTakesChangesAndTheRunBehindThem) {
  const auto set =
      Parse<SetCommand>({"set", "exchange.push=int8", "train.local_steps=4", "runs/a"});
  ASSERT_EQ(set.changes.size(), 2U);
  EXPECT_EQ(set.changes[0].key, "exchange.push");
  EXPECT_EQ(set.changes[0].value, "int8");
  EXPECT_EQ(set.changes[1].value, "4");
  EXPECT_EQ(set.job, "runs/a");
  EXPECT_EQ(Parse<SetCommand>({"set", "exchange.push=topk:0.01"}).job, "");
  EXPECT_THAT(ErrorOf({"set"}), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(ErrorOf({"set", "runs/a"}), HasSubstr("nothing is to change"));
  EXPECT_THAT(ErrorOf({"set", "=int8"}), HasSubstr("lacks a key or a value"));
  EXPECT_THAT(ErrorOf({"set", "exchange.push="}), HasSubstr("lacks a key or a value"));
  EXPECT_THAT(
      ErrorOf({"set", "runs/a", "exchange.push=int8"}),
      HasSubstr("runs/a is no KEY=VALUE, and only the last word may name the run"));
}

TEST(CommandLineTest, WhyIsOfAllWorkersOrOfOne) {
  EXPECT_EQ(Parse<WhyCommand>({"why"}).worker, -1);
  const auto one = Parse<WhyCommand>({"why", "runs/a", "3"});
  EXPECT_EQ(one.job, "runs/a");
  EXPECT_EQ(one.worker, 3);
  EXPECT_EQ(Parse<WhyCommand>({"why", "--worker", "2"}).worker, 2);
  EXPECT_THAT(ErrorOf({"why", "--worker", "-2"}), HasSubstr("--worker is negative"));
}

TEST(CommandLineTest, WatchingPausingAndReplaying) {
  EXPECT_EQ(Parse<TopCommand>({"top", "runs/a"}).job, "runs/a");
  EXPECT_TRUE(Parse<EventsCommand>({"events", "--follow", "--json"}).is_following);
  EXPECT_TRUE(Parse<PauseCommand>({"pause"}).is_paused);
  EXPECT_FALSE(Parse<PauseCommand>({"continue", "runs/a"}).is_paused);
  const auto replay = Parse<ReplayCommand>(
      {"replay", "t.csv", "a.json", "--hours", "2", "--nodes", "8", "--set", "a=1", "b=2"});
  EXPECT_EQ(replay.scale.speedup, 60);
  EXPECT_EQ(replay.scale.hours, 2);
  EXPECT_EQ(replay.scale.nodes_max, 8U);
  EXPECT_EQ(replay.notice_s, 120);
  EXPECT_EQ(replay.overrides.size(), 2U);
  EXPECT_EQ(Parse<ReplayCommand>({"replay", "t", "a", "--policy", "hold"}).policy, "hold");
  EXPECT_EQ(Parse<ReplayCommand>({"replay", "t", "a", "--notice", "none"}).notice_s, 0);
  EXPECT_THAT(ErrorOf({"replay", "t", "a", "--notice", "soon"}), HasSubstr("--notice"));
  EXPECT_THAT(ErrorOf({"replay", "t"}), HasSubstr("JOB.json"));
}

TEST(CommandLineTest, HelpAndVersionAreResults) {
  const std::string help = Printed({"--help"});
  for (const char* word : {"train", "status", "why", "stop", "notice", "Examples", "Exit codes"}) {
    EXPECT_THAT(help, HasSubstr(word));
  }
  EXPECT_THAT(Printed({"train", "--help"}), HasSubstr("--print-config"));
  EXPECT_THAT(Printed({"--version"}), StartsWith("psctl 0."));
}

TEST(CommandLineTest, HelpIsACommandToo) {
  EXPECT_EQ(Printed({"help"}), Printed({"--help"}));
  EXPECT_EQ(Printed({"-h"}), Printed({"--help"}));
  EXPECT_EQ(Printed({"help", "catalog", "show"}), Printed({"catalog", "show", "--help"}));
  EXPECT_EQ(Printed({"help", "trian"}), "psctl: unknown command 'trian'; did you mean 'train'?\n");
  EXPECT_EQ(Printed({"help", "train", "x"}), "psctl: unknown command 'x'; train has no commands\n");
}

TEST(CommandLineTest, CheckTakesWhatTrainTakes) {
  EXPECT_EQ(Parse<ModelCommand>({"model", "job.json", "--set", "a=1"}).overrides.size(), 1U);
  const auto check =
      Parse<CheckCommand>({"check", "job.json", "--set", "a=1", "b=2", "--plan", "plan.json"});
  EXPECT_EQ(check.job_path, "job.json");
  EXPECT_EQ(check.plan_path, "plan.json");
  ASSERT_EQ(check.overrides.size(), 2U);
  EXPECT_EQ(check.overrides[1].key, "b");
}

TEST(CommandLineTest, RunsAreListedOrRemoved) {
  EXPECT_FALSE(Parse<RunsCommand>({"runs"}).prunes);
  EXPECT_TRUE(Parse<RunsCommand>({"runs", "--prune"}).prunes);
  EXPECT_TRUE(Parse<RunsCommand>({"runs", "--json"}).is_json);
  EXPECT_THAT(ErrorOf({"runs", "--prune", "--json"}), HasSubstr("--prune"));
  const auto prune = Parse<RunsCommand>({"runs", "--prune", "--older-than", "7d", "--yes"});
  EXPECT_EQ(prune.older_than_s, 7 * 86400.0);
  EXPECT_TRUE(prune.is_confirmed);
  EXPECT_FALSE(prune.removes_models);
  EXPECT_THAT(ErrorOf({"runs", "--yes"}), HasSubstr("--prune"));
}

TEST(CommandLineTest, CompletionIsForShellsThatAreKnown) {
  EXPECT_THAT(Printed({"completion", "bash"}), HasSubstr("complete -o default"));
  EXPECT_THAT(Printed({"completion", "zsh"}), StartsWith("#compdef psctl\n"));
  EXPECT_EQ(ErrorOf({"completion", "fish"}), "unknown shell 'fish'; there are: bash, zsh");
  EXPECT_EQ(ErrorOf({"completion"}), "completion wants bash|zsh; try psctl completion --help");
}

TEST(CommandLineTest, AMistypedCommandNamesTheNearest) {
  EXPECT_EQ(ErrorOf({"trian", "job.json"}), "unknown command 'trian'; did you mean 'train'?");
  EXPECT_THAT(
      ErrorOf({"quux"}), StartsWith("unknown command 'quux'; there are: train, check, model, "));
}

TEST(CommandLineTest, AMistypedFlagNamesTheNearest) {
  EXPECT_EQ(
      ErrorOf({"train", "job.json", "--jsno"}), "unknown flag '--jsno'; did you mean '--json'?");
  EXPECT_EQ(
      ErrorOf({"train", "--ste=a=1", "job.json"}), "unknown flag '--ste'; did you mean '--set'?");
  EXPECT_THAT(ErrorOf({"stop", "-9"}), HasSubstr("unknown flag '-9'"));
}

TEST(CommandLineTest, WhatIsMissingOrTooMuchIsSaid) {
  EXPECT_THAT(
      ErrorOf({}),
      AllOf(StartsWith("no command; there are: train, check, "), HasSubstr("; try psctl --help")));
  EXPECT_EQ(
      ErrorOf({"train"}),
      "train wants JOB.json, as in: psctl train configs/fashion_mnist_cnn.json");
  EXPECT_EQ(ErrorOf({"train", "a.json", "b.json"}), "too many arguments for train: 'b.json'");
  EXPECT_EQ(ErrorOf({"train", "a.json", "--set"}), "--set needs a value; try psctl train --help");
  EXPECT_EQ(
      ErrorOf({"catalog", "show", "--sort"}),
      "--sort needs a value; try psctl catalog show --help");
  EXPECT_EQ(
      ErrorOf({"plan", "--profile", "a.json", "--profile", "b.json"}),
      "--profile is given too often; try psctl plan --help");
  EXPECT_THAT(ErrorOf({"profile", "a.json", "--seconds", "1"}), HasSubstr("from 2 to 3600"));
  EXPECT_THAT(ErrorOf({"tune", "a.json", "--tolerance", "-1"}), HasSubstr("from 0 to 100"));
  EXPECT_THAT(ErrorOf({"tune", "a.json", "--tries", "0"}), HasSubstr("from 1 to 10"));
  EXPECT_THAT(ErrorOf({"tune", "a.json", "--repeats", "21"}), HasSubstr("from 1 to 20"));
  EXPECT_THAT(
      ErrorOf({"profile", "a.json", "--curve-repeats", "9"}), HasSubstr("number from 1 to 8"));
  EXPECT_THAT(
      ErrorOf({"profile", "a.json", "--local-steps", "1,8", "--curve-seconds", "0"}),
      HasSubstr("--local-steps, --push and --pull compare loss curves"));
  EXPECT_THAT(ErrorOf({"train", "a.json", "--set", "epochs"}), HasSubstr("got 'epochs'"));
  EXPECT_THAT(ErrorOf({"train", "a.json", "--set", "=3"}), HasSubstr("wants KEY=VALUE"));
}

TEST(CommandLineTest, CatalogHasCommandsOfItsOwn) {
  const auto show = Parse<CatalogShowCommand>({"catalog", "show"});
  EXPECT_EQ(show.file, "");
  EXPECT_EQ(show.sort, "price");
  EXPECT_EQ(Parse<CatalogShowCommand>({"catalog", "show", "a.json", "--sort=name"}).sort, "name");
  EXPECT_EQ(Parse<CatalogShowCommand>({"catalog", "show", "--catalog", "a.json"}).file, "a.json");
  EXPECT_EQ(Parse<CatalogCheckCommand>({"catalog", "check", "a.json"}).file, "a.json");
  const auto import = Parse<CatalogImportCommand>(
      {"catalog",
       "import",
       "--from",
       "csv",
       "a.csv",
       "b.csv@2026-07-20",
       "--region",
       "us-east-1",
       "--quota",
       "4",
       "-o",
       "c.json"});
  EXPECT_EQ(import.format, "csv");
  EXPECT_EQ(import.files, (std::vector<std::string>{"a.csv", "b.csv@2026-07-20"}));
  EXPECT_EQ(import.region, "us-east-1");
  EXPECT_EQ(import.quota, 4);
  EXPECT_EQ(import.output, "c.json");
  EXPECT_THAT(Printed({"catalog", "show", "--help"}), HasSubstr("--sort"));
}

TEST(CommandLineTest, WrongCatalogCommandsAreSaidInOneLine) {
  EXPECT_EQ(
      ErrorOf({"catalog"}),
      "no command after catalog; there are: show, check, import, refresh; try psctl --help");
  EXPECT_EQ(ErrorOf({"catalog", "shwo"}), "unknown command 'shwo'; did you mean 'show'?");
  EXPECT_EQ(
      ErrorOf({"catalog", "show", "--sotr"}), "unknown flag '--sotr'; did you mean '--sort'?");
  EXPECT_EQ(
      ErrorOf({"catalog", "show", "--sort", "nmae"}),
      "unknown sort order 'nmae'; did you mean 'name'?");
  EXPECT_EQ(
      ErrorOf({"catalog", "check"}), "catalog check wants FILE; try psctl catalog check --help");
  EXPECT_EQ(ErrorOf({"catalog", "check", "a", "b"}), "too many arguments for catalog check: 'b'");
  EXPECT_THAT(ErrorOf({"catalog", "import", "a.csv"}), HasSubstr("--from"));
  EXPECT_THAT(ErrorOf({"catalog", "import", "--from", "csv"}), HasSubstr("FILE"));
  EXPECT_THAT(ErrorOf({"catalog", "import", "--from", "xls", "a"}), HasSubstr("format 'xls'"));
  EXPECT_THAT(
      ErrorOf({"catalog", "import", "--quota", "x", "--from=csv", "a"}), HasSubstr("quota"));
}

}  // namespace
}  // namespace ps::psctl
