#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ps::provisioner {

// Which of psctl's environment variables reach the processes of a job. Credentials are psctl's own:
// it alone talks to object stores, and a server or worker is let in by its token file.

/// Whether a variable of this name holds a secret, by its name: AWS_SECRET_ACCESS_KEY, HF_TOKEN.
bool IsCredential(std::string_view name);

/// Those of `environment` ("NAME=VALUE") that hold no secret.
std::vector<std::string> WithoutCredentials(const char* const* environment);

/// The names, with commas between, of the variables that a job of Slurm gets from here: those that
/// find programs and libraries, and tell languages and time zones. Only those that are set; "NIL"
/// when none is.
std::string SlurmExport(const char* const* environment);

}  // namespace ps::provisioner
