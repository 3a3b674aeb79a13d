// ps_coordinator: coordinates a run, and watches over the process that does. psctl becomes it.

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <variant>

#include "ps/process/flags.h"
#include "ps/process/process_start.h"
#include "run/directory/coordinator_order.h"
#include "run/resume.h"
#include "run/train.h"

namespace ps::run {
namespace {

int Main(int argc, char** argv) {
  const auto own = static_cast<int>(std::find(argv, argv + argc, std::string_view("--")) - argv);
  const std::string asked = Flags::Asked(own, argv, CoordinatorManual(), PS_VERSION);
  if (!asked.empty()) {
    std::fputs(asked.c_str(), stdout);
    return kExitOk;
  }
  const Console console = ProcessConsole();
  const Result<CoordinatorOrder> order = ParseOrder(argc, argv);
  if (!order.ok()) {
    return Misuse(console, order.status());
  }
  const RunRegistry registry(RunRegistry::DefaultDirectory(), {"runs"});
  const int exit_code = std::holds_alternative<TrainOrder>(*order)
                            ? RunTrain(std::get<TrainOrder>(*order), console, registry)
                            : RunResume(std::get<ResumeOrder>(*order), console, registry);
  if (const Status written = console.out_status(); !written.ok()) {
    Fail(console, written);
    return exit_code == kExitOk ? kExitFailed : exit_code;
  }
  return exit_code;
}

}  // namespace
}  // namespace ps::run

int main(int argc, char** argv) {
  ps::OpenStandardStreams();
  return ps::run::Main(argc, argv);
}
