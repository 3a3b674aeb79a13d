// One program for all targets: fuzz_targets NAME [libFuzzer's arguments]. Where the compiler has no
// libFuzzer the arguments are folders, whose files are given to the target once.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "ps/base/file.h"
#include "tests/fuzz/targets.h"

namespace {

const ps::fuzz::Target* chosen = nullptr;

/// Takes NAME out of the arguments.
void Choose(int* argc, char*** argv) {
  chosen = *argc > 1 ? ps::fuzz::FindTarget((*argv)[1]) : nullptr;
  if (chosen == nullptr) {
    std::fputs(
        "usage: fuzz_targets NAME [ARGUMENT...]; tests/fuzz/README.md has the names\n", stderr);
    std::exit(2);
  }
  (*argv)[1] = (*argv)[0];
  ++*argv;
  --*argc;
}

/// Gives each file of the folders among the arguments to the target once. A corpus of which the
/// parser takes nothing is of another version: all that is made of it would be refused at the first
/// look.
int RunCorpus(int argc, char** argv) {
  int files = 0;
  int taken = 0;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') {
      continue;  // libFuzzer's
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      const ps::Result<std::string> text = ps::ReadFile(entry.path());
      if (!text.ok()) {
        std::fprintf(stderr, "%s\n", text.status().ToString().c_str());
        std::exit(1);
      }
      taken += chosen->run({reinterpret_cast<const uint8_t*>(text->data()), text->size()}) ? 1 : 0;
      ++files;
    }
  }
  if (files > 0 && taken == 0) {
    std::fprintf(
        stderr,
        "%s: the parser takes none of the %d files of the corpus; add some that it takes\n",
        std::string(chosen->name).c_str(),
        files);
    std::exit(1);
  }
  return files;
}

}  // namespace

#ifdef PS_HAVE_LIBFUZZER

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  Choose(argc, argv);
  RunCorpus(*argc, *argv);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen->run({data, size});
  return 0;
}

#else

int main(int argc, char** argv) {
  Choose(&argc, &argv);
  const int files = RunCorpus(argc, argv);
  std::printf("%s: %d files\n", std::string(chosen->name).c_str(), files);
  return files > 0 ? 0 : 1;
}

#endif
