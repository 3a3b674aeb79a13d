#include <string>
#include <vector>

#include "ps/process/process_start.h"
#include "psctl/commands.h"

int main(int argc, char** argv) {
  ps::OpenStandardStreams();
  namespace psctl = ps::psctl;
  const psctl::Console console = psctl::ProcessConsole();
  const int exit_code = psctl::RunPsctl(
      std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
      console,
      psctl::RunRegistry(psctl::RunRegistry::DefaultDirectory(), {"runs"}));
  if (const ps::Status written = console.out_status(); !written.ok()) {
    psctl::Fail(console, written);
    return exit_code == psctl::kExitOk ? psctl::kExitFailed : exit_code;
  }
  return exit_code;
}
