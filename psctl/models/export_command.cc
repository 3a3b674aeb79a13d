#include "psctl/models/export_command.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "worker/use/torch_module.h"

namespace ps::psctl {
namespace {

namespace fs = std::filesystem;

/// A copy appears as a whole, in place of an older one.
Status CopyFile(const std::string& from, const std::string& to) {
  std::error_code error;
  if (fs::equivalent(from, to, error)) {
    return Status::Ok();
  }
  const std::string draft = to + ".part";
  fs::copy_file(from, draft, fs::copy_options::overwrite_existing, error);
  if (error) {
    return Status::Io(fmt::format("cannot copy {} to {}: {}", from, draft, error.message()));
  }
  return MoveIntoPlace(draft, to);
}

/// Returns what was written, for people.
Result<std::string> Export(const ExportCommand& command, const Session& session) {
  PS_ASSIGN(const ChosenModel chosen, ChooseModel(command.choice, session));
  PS_ASSIGN(const std::string module, worker::TorchModule(chosen.card, chosen.name));
  if (command.target.ends_with(".py")) {
    PS_TRY(WriteFileAtomically(command.target, module));
    return command.target + "\n";
  }
  PS_TRY(CreateDirectories(command.target));
  const std::string model = command.target + "/model.safetensors";
  PS_TRY(CopyFile(chosen.file, model));
  PS_TRY(WriteFileAtomically(command.target + "/model.py", module));
  return fmt::format("{0}/model.py\n{0}/model.safetensors\n", command.target);
}

void AddArguments(ExportCommand* command, Arguments* arguments) {
  AddModel(&command->choice, arguments);
  arguments
      ->Add(
          "--pytorch",
          &command->target,
          "Python module to write, FILE.py; or a folder for the module and a copy of the model")
      .Value("FILE.py")
      .Required();
}

int Run(const ExportCommand& command, const Session& session) {
  const Result<std::string> written = Export(command, session);
  if (!written.ok()) {
    return run::Fail(session.console, written.status());
  }
  session.console.out(*written);
  return run::kExitOk;
}

}  // namespace

constinit const Command kModelExport = {
    .path = "model export",
    .group = Group::kRun,
    .help = "Write a PyTorch module that loads a trained model",
    .examples = {{{"psctl model export mnist --pytorch mnist.py", "its layers, for PyTorch"}}},
    .declare = Declare<ExportCommand, AddArguments, Run>};

}  // namespace ps::psctl
