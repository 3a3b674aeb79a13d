#include <string>
#include <vector>

#include "ps/process/process_start.h"
#include "psctl/commands.h"

int main(int argc, char** argv) {
  ps::OpenStandardStreams();
  namespace run = ps::run;
  const run::Console console = run::ProcessConsole();
  const int exit_code = ps::psctl::RunPsctl(
      std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
      console,
      run::RunRegistry(run::RunRegistry::DefaultDirectory(), {"runs"}));
  if (const ps::Status written = console.out_status(); !written.ok()) {
    run::Fail(console, written);
    return exit_code == run::kExitOk ? run::kExitFailed : exit_code;
  }
  return exit_code;
}
