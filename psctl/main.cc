#include <string>
#include <vector>

#include "psctl/commands.h"

int main(int argc, char** argv) {
  return ps::psctl::RunPsctl(
      std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
      ps::psctl::ProcessConsole(),
      ps::psctl::RunRegistry(ps::psctl::RunRegistry::DefaultDirectory(), {"runs"}));
}
