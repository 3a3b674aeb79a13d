// Recordings of machines and prices, and the words by which people name a machine.

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "provisioner/unseen/unseen_types.h"
#include "ps/base/check.h"
#include "ps/base/text.h"
#include "psctl/traces/replay_trace.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

constexpr std::string_view kFile = "trace.csv";

bool IsRefusedTrace(const Status& status) {
  if (!status.ok()) {
    const std::string_view message = status.message();
    PS_CHECK(status.code() == StatusCode::kInvalidArgument) << status;
    PS_CHECK(message.starts_with(kFile) && Printable(message) == message) << message;
  }
  return !status.ok();
}

void CheckTrace(const psctl::AvailabilityTrace& trace) {
  PS_CHECK(!trace.steps.empty() && trace.steps.front().at_s == 0) << "it begins at 0";
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    PS_CHECK(trace.steps[i].nodes <= psctl::kTraceNodesMax) << trace.steps[i].nodes;
    if (i > 0) {
      PS_CHECK(trace.steps[i].at_s > trace.steps[i - 1].at_s) << "times ascend";
      PS_CHECK(trace.steps[i].nodes != trace.steps[i - 1].nodes) << "a step that changes nothing";
    }
  }
  PS_CHECK(std::isfinite(trace.end_s) && trace.end_s >= trace.steps.back().at_s) << trace.end_s;
  PS_CHECK(psctl::NodeSeconds(trace) >= 0);
}

bool FuzzAvailability(std::string_view text, double unit_s, psctl::GapRule gaps) {
  const auto trace = psctl::ParseTrace(text, std::string(kFile), unit_s, gaps);
  if (IsRefusedTrace(trace.status())) {
    return false;
  }
  CheckTrace(*trace);
  const auto cut = psctl::CutTrace(*trace, {.from_hours = 0, .nodes_max = 3});
  if (cut.ok()) {
    CheckTrace(*cut);
  }
  return true;
}

bool FuzzPriceLines(std::string_view text, double unit_s, psctl::GapRule gaps) {
  const auto prices = psctl::ParsePrices(text, std::string(kFile), unit_s, gaps);
  if (IsRefusedTrace(prices.status())) {
    return false;
  }
  PS_CHECK(!prices->empty()) << "no price";
  for (size_t i = 0; i < prices->size(); ++i) {
    const psctl::PriceLine& line = (*prices)[i];
    PS_CHECK(std::isfinite(line.usd) && line.usd >= 0) << line.usd;
    PS_CHECK(line.at_s >= 0 && (i == 0 || line.at_s >= (*prices)[i - 1].at_s)) << line.at_s;
  }
  return true;
}

}  // namespace

bool FuzzTrace(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  constexpr std::array kGaps = {
      psctl::GapRule::kRefuse, psctl::GapRule::kHold, psctl::GapRule::kNone, psctl::GapRule::kCut};
  const uint8_t how = input.front();
  const std::string_view text = Text(input.subspan(1));
  const psctl::GapRule gaps = kGaps[how / 2 % kGaps.size()];
  const double unit_s = how / 8 % 2 == 0 ? 1 : 3600;
  return how % 2 == 0 ? FuzzAvailability(text, unit_s, gaps) : FuzzPriceLines(text, unit_s, gaps);
}

bool FuzzMachine(std::span<const uint8_t> input) {
  const auto machine = provisioner::ParseMachine(std::string(Text(input)));
  if (!machine.ok()) {
    const std::string_view message = machine.status().message();
    PS_CHECK(machine.status().code() == StatusCode::kInvalidArgument) << machine.status();
    PS_CHECK(Printable(message) == message) << message;
    return false;
  }
  PS_CHECK(machine->devices >= 1 && machine->devices <= 1024) << machine->devices;
  PS_CHECK(machine->figures.tflops > 0 && machine->figures.gbyte_per_s > 0) << machine->device;
  PS_CHECK(std::isfinite(machine->figures.tflops)) << machine->device;
  return true;
}

}  // namespace ps::fuzz
