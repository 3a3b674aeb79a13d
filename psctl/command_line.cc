#include "psctl/command_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "provisioner/catalog/catalog_import.h"
#include "provisioner/profile/profile_merge.h"
#include "ps/base/text.h"
#include "ps/proto/limits.h"
#include "psctl/command_parser.h"
#include "psctl/command_usage.h"
#include "psctl/view/catalog_view.h"
#include "run/planning/plan_arguments.h"

namespace ps::psctl {
namespace {

constexpr double kGraceSecondsMax = 3600;

/// `--set a=1 b=2` becomes `--set a=1 --set b=2`: what follows a setting and is one too.
std::vector<std::string> SplitSettings(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  bool is_after_setting = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--set") {
      out.push_back(argument);
      if (i + 1 < arguments.size()) {
        out.push_back(arguments[++i]);
      }
      is_after_setting = true;
      continue;
    }
    const bool is_setting = is_after_setting && !argument.empty() && argument.front() != '-' &&
                            argument.find('=') != std::string::npos;
    if (is_setting) {
      out.emplace_back("--set");
    }
    is_after_setting = is_setting;
    out.push_back(argument);
  }
  return out;
}

Result<std::vector<proto::ConfigOverride>> ParseSettings(const std::vector<std::string>& settings) {
  std::vector<proto::ConfigOverride> overrides;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Status::InvalidArgument(fmt::format(
          "--set wants KEY=VALUE, as in --set train.epochs=2; got '{}'", Printable(setting)));
    }
    overrides.push_back({setting.substr(0, equals), setting.substr(equals + 1)});
  }
  return overrides;
}

/// Of "3" and "w3"; nothing for anything else.
std::optional<uint32_t> SeatIn(std::string_view text) {
  text.remove_prefix(text.starts_with('w') ? 1 : 0);
  uint32_t seat = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seat);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && seat < proto::kSeatsMax ? std::optional(seat) : std::nullopt;
}

/// The same, or "s0" for a server.
Status ParseNoticed(const std::string& text, NoticeCommand* notice) {
  notice->is_server = text.starts_with('s');
  const std::string_view name = std::string_view(text).substr(notice->is_server ? 1 : 0);
  const std::optional<uint32_t> number =
      notice->is_server && name.starts_with('w') ? std::nullopt : SeatIn(name);
  if (!number) {
    return Status::InvalidArgument(fmt::format(
        "notice wants a worker's number as psctl status lists it, as in: psctl notice 3; got '{}'; "
        "a server is named as in: psctl notice s0",
        Printable(text)));
  }
  notice->worker = *number;
  return Status::Ok();
}

/// What --grace says, if anything.
Status ParseGrace(const CLI::App& command, const std::string& text, double* seconds) {
  if (command.get_option("--grace")->count() == 0) {
    return Status::Ok();
  }
  PS_ASSIGN(*seconds, ParseDuration("--grace", text));
  return *seconds <= kGraceSecondsMax
             ? Status::Ok()
             : Status::InvalidArgument("--grace wants at most an hour, as in --grace 30s");
}

Result<Command> NoticeOf(CommandParser& parser) {
  PS_TRY(ParseNoticed(parser.notice_worker, &parser.notice_command));
  PS_TRY(ParseGrace(*parser.notice, parser.notice_grace, &parser.notice_command.grace_s));
  return Command(parser.notice_command);
}

Result<Command> DrainOf(CommandParser& parser) {
  const std::optional<uint32_t> seat = SeatIn(parser.drain_worker);
  if (!seat) {
    return Status::InvalidArgument(fmt::format(
        "drain wants a worker's number as psctl status lists it, as in: psctl drain 3; got '{}'",
        Printable(parser.drain_worker)));
  }
  parser.drain_command.worker = *seat;
  PS_TRY(ParseGrace(*parser.drain, parser.notice_grace, &parser.drain_command.grace_s));
  return Command(parser.drain_command);
}

Result<Command> TuneOf(CommandParser& parser) {
  const TuneCommand& tune = parser.tune_command;
  if (!(tune.tolerance_points >= 0 && tune.tolerance_points <= 100)) {
    return Status::InvalidArgument(
        "--tolerance wants a number from 0 to 100, as in --tolerance 0.5");
  }
  if (tune.tries < 1 || tune.tries > kTuneTriesMax) {
    return Status::InvalidArgument(
        fmt::format("--tries wants a number from 1 to {}, as in --tries 4", kTuneTriesMax));
  }
  if (tune.repeats < 1 || tune.repeats > kTuneRepeatsMax) {
    return Status::InvalidArgument(
        fmt::format("--repeats wants a number from 1 to {}, as in --repeats 3", kTuneRepeatsMax));
  }
  PS_ASSIGN(parser.tune_command.overrides, ParseSettings(parser.settings));
  return Command(parser.tune_command);
}

Result<Command> ScaleOf(const CommandParser& parser) {
  PS_ASSIGN(ScaleCommand scale, ParseScale(parser.scale_words));
  const ScaleCommand& flags = parser.scale_command;
  scale.is_waiting = flags.is_waiting;
  if (parser.scale->get_option("--timeout")->count() > 0) {
    PS_ASSIGN(scale.wait_max_s, ParseDuration("--timeout", parser.scale_timeout));
    if (!scale.is_waiting) {
      return Status::InvalidArgument("--timeout of scale is for --wait");
    }
  }
  scale.is_preview = flags.is_preview;
  scale.profile_path = flags.profile_path;
  scale.catalog_path = flags.catalog_path;
  if (!scale.is_preview && !(scale.profile_path + scale.catalog_path).empty()) {
    return Status::InvalidArgument("--profile and --catalog of scale are for --dry-run");
  }
  return Command(std::move(scale));
}

Result<Command> CatalogCommand(const CommandParser& parser) {
  if (parser.catalog_show->parsed()) {
    PS_TRY(CheckOneOf("sort order", parser.catalog_show_command.sort, CatalogSortOrders()));
    return Command(parser.catalog_show_command);
  }
  if (parser.catalog_check->parsed()) {
    return Command(parser.catalog_check_command);
  }
  const std::vector<std::string_view> formats = provisioner::ImportFormats();
  PS_TRY(
      CheckOneOf("format", parser.catalog_import_command.format, {formats.begin(), formats.end()}));
  return Command(parser.catalog_import_command);
}

/// "7" or "newest", which is 0.
Result<uint64_t> ParseCheckpoint(const std::string& text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (text != "newest" && (error != std::errc() || stopped != end || number == 0)) {
    return Status::InvalidArgument(fmt::format(
        "a checkpoint is a number or 'newest', not '{}'; psctl checkpoint list shows them",
        Printable(text)));
  }
  return number;
}

}  // namespace

Result<Command> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandParser parser;
  std::vector<std::string> split = SplitSettings(arguments);
  PS_TRY(CheckNames(parser, split));
  std::reverse(split.begin(), split.end());  // as CLI11 takes a vector
  try {
    parser.app.parse(split);
  } catch (const CLI::CallForHelp&) {
    return Command(PrintCommand{parser.app.help()});  // of the command that was named, if any
  } catch (const CLI::CallForVersion& version) {
    return Command(PrintCommand{std::string(version.what()) + "\n"});
  } catch (const CLI::ParseError& error) {
    return MisuseOf(error, parser);
  }
  if (parser.help->parsed()) {
    if (parser.is_man_page) {
      return Command(PrintCommand{ManPage()});
    }
    PS_ASSIGN(std::string text, HelpText(parser.help_path));
    return Command(PrintCommand{std::move(text)});
  }
  if (parser.completion->parsed()) {
    PS_TRY(CheckOneOf("shell", parser.completion_shell, {"bash", "zsh"}));
    const CommandText table = DescribeCommands(parser);
    return Command(PrintCommand{
        parser.completion_shell == "bash" ? BashCompletion(table) : ZshCompletion(table)});
  }
  if (parser.check->parsed()) {
    PS_ASSIGN(parser.check_command.overrides, ParseSettings(parser.settings));
    return Command(parser.check_command);
  }
  if (parser.model->parsed()) {
    PS_ASSIGN(parser.model_command.overrides, ParseSettings(parser.settings));
    return Command(parser.model_command);
  }
  if (parser.runs->parsed()) {
    if (!parser.runs_older_than.empty()) {
      PS_ASSIGN(
          parser.runs_command.older_than_s, ParseDuration("--older-than", parser.runs_older_than));
    }
    return Command(parser.runs_command);
  }
  if (parser.train->parsed()) {
    PS_ASSIGN(parser.train_command.overrides, ParseSettings(parser.settings));
    return Command(parser.train_command);
  }
  if (parser.profile->parsed()) {
    if (!(parser.profile_command.seconds >= 2 && parser.profile_command.seconds <= 3600)) {
      return Status::InvalidArgument("--seconds wants a number from 2 to 3600, as in --seconds 10");
    }
    const double curve_seconds = parser.profile_command.curve_seconds.value_or(0);
    if (!(curve_seconds >= 0 && curve_seconds <= 36000)) {
      return Status::InvalidArgument(
          "--curve-seconds wants a number from 0 to 36000, as in --curve-seconds 30");
    }
    const int curve_repeats = parser.profile_command.curve_repeats;
    if (curve_repeats < 1 || curve_repeats > provisioner::kCurvesPerFleet) {
      return Status::InvalidArgument(fmt::format(
          "--curve-repeats wants a number from 1 to {}, as in --curve-repeats 3",
          provisioner::kCurvesPerFleet));
    }
    PS_ASSIGN(parser.profile_command.overrides, ParseSettings(parser.settings));
    return Command(parser.profile_command);
  }
  if (parser.tune->parsed()) {
    return TuneOf(parser);
  }
  if (parser.attach->parsed()) {
    return Command(parser.attach_command);
  }
  if (parser.resume->parsed()) {
    PS_ASSIGN(parser.resume_command.overrides, ParseSettings(parser.settings));
    return Command(parser.resume_command);
  }
  if (parser.status->parsed()) {
    return Command(parser.status_command);
  }
  if (parser.why->parsed()) {
    return Command(parser.why_command);
  }
  if (parser.top->parsed()) {
    return Command(parser.top_command);
  }
  if (parser.events->parsed()) {
    return Command(parser.events_command);
  }
  if (parser.pause->parsed() || parser.go_on->parsed()) {
    parser.pause_command.is_paused = parser.pause->parsed();
    return Command(parser.pause_command);
  }
  if (parser.forecast->parsed()) {
    PS_ASSIGN(
        parser.forecast_command.interval_s, ParseDuration("--interval", parser.forecast_interval));
    return Command(parser.forecast_command);
  }
  if (parser.simulate->parsed()) {
    SimulateCommand& command = parser.simulate_command;
    PS_ASSIGN(command.start_s, ParseDuration("--start-up", parser.simulate_start_up));
    if (!parser.simulate_detect.empty()) {
      PS_ASSIGN(command.detect_s, ParseDuration("--detect", parser.simulate_detect));
    }
    if (!parser.simulate_within.empty()) {
      PS_ASSIGN(command.within_s, ParseDuration("--within", parser.simulate_within));
    }
    return Command(command);
  }
  if (parser.mode->parsed()) {
    PS_ASSIGN(parser.mode_command.wanted, ParseMode(parser.mode_command.word));
    return Command(parser.mode_command);
  }
  if (parser.replay->parsed()) {
    parser.replay_command.notice_s = 0;
    if (parser.replay_notice != "none") {
      PS_ASSIGN(parser.replay_command.notice_s, ParseDuration("--notice", parser.replay_notice));
    }
    PS_ASSIGN(parser.replay_command.overrides, ParseSettings(parser.settings));
    return Command(parser.replay_command);
  }
  if (parser.drain->parsed()) {
    return DrainOf(parser);
  }
  if (parser.scale->parsed()) {
    return ScaleOf(parser);
  }
  if (parser.move->parsed()) {
    PS_ASSIGN(const proto::ScaleChange change, ParseMove(parser.move_tensor, parser.move_server));
    parser.move_command.changes = {change};
    return Command(parser.move_command);
  }
  if (parser.notice->parsed()) {
    return NoticeOf(parser);
  }
  if (parser.catalog->parsed()) {
    return CatalogCommand(parser);
  }
  if (parser.checkpoint->parsed()) {
    PS_ASSIGN(parser.checkpoint_command.first, ParseCheckpoint(parser.checkpoint_first));
    PS_ASSIGN(parser.checkpoint_command.second, ParseCheckpoint(parser.checkpoint_second));
    return Command(parser.checkpoint_command);
  }
  if (parser.plan->parsed()) {
    parser.plan_command.has_within = parser.within->count() > 0;
    parser.plan_command.has_effort = parser.effort->count() > 0;
    parser.plan_command.has_takeover = parser.takeover->count() > 0;
    parser.plan_command.has_budget = parser.budget->count() > 0;
    parser.plan_command.has_from_loss = parser.from_loss->count() > 0;
    parser.plan_command.has_steps_done = parser.steps_done->count() > 0;
    return Command(parser.plan_command);
  }
  if (parser.predict->parsed()) {
    return Command(parser.predict_command);
  }
  return Command(parser.stop_command);
}

}  // namespace ps::psctl
