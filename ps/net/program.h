#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/process/flags.h"
#include "ps/process/manual.h"

namespace ps::crypto {
class TlsContext;
}

namespace ps::net {

/// What ps_server and ps_worker are told alike.
struct RunFlags {
  std::string coordinator_host;
  uint32_t coordinator_port = 0;
  std::string token;
  std::string token_file;  // all of its text, which may come from a pipe that gives it once
  std::shared_ptr<const crypto::TlsContext> tls;  // null: the run is not encrypted
  std::optional<int64_t> run_start_us;            // zero of the log, microseconds since 1970 UTC
  LaunchId launch;                                // none: it was started by hand
  double link_bytes_per_s = 0;                    // to emulate; 0: no limit
};

/// What a program that takes part in a run says of itself.
struct ProgramText {
  std::string name;
  std::string summary;         // one line without a full stop
  std::string required_flags;  // besides those of RunFlags, as typed: " --id N"
  std::string description;
  std::vector<ManualFlag> flags;  // its own
  std::string example;            // the command, behind the one that copies the token
  std::string exit_codes;
};

/// The manual for help and man page: adds the flags of RunFlags, --log-file and those that every
/// program has.
Manual ManualOf(const ProgramText& text);

/// A command line of such a program.
struct ProgramFlags {
  Flags flags;
  RunFlags run;
};

/// Errors: misuse, whatever the code.
Result<ProgramFlags> ReadProgramFlags(int argc, const char* const* argv, const ProgramText& text);

/// Where --log-file says, else stderr. Errors: kIo with the path.
Result<std::unique_ptr<LogSink>> LogSinkOf(const Flags& flags);

/// What the program does, with its log.
using ProgramWork = std::function<Status(LogSink* sink)>;
/// Reads the program's own flags. Errors: misuse, whatever the code.
using ProgramSetup = std::function<Result<ProgramWork>(const Flags& flags, const RunFlags& run)>;

/// The main function of such a program. Returns the exit code: 0 the work is done or a text was
/// asked for, 1 it failed, 2 misused; both with a line on stderr.
int RunProgram(
    int argc,
    const char* const* argv,
    const ProgramText& text,
    std::string_view version,
    const ProgramSetup& set_up);

}  // namespace ps::net
