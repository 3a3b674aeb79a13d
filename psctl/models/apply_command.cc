#include "psctl/models/apply_command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/unique_fd.h"
#include "psctl/models/predictions.h"
#include "psctl/models/rate_line.h"
#include "worker/use/inputs.h"

namespace ps::psctl {
namespace {

/// Where lines go: stdout, or a file that has its name once it is whole.
class Output {
 public:
  static Result<Output> Open(const std::string& path, const run::Console& console) {
    Output output(path, console);
    if (path != "-") {
      PS_TRY(CheckReplaceable(path));
      constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
      output.fd_ = UniqueFd(::open(output.draft().c_str(), kFlags, 0644));
      if (!output.fd_.is_open()) {
        return IoError("cannot write", output.draft());
      }
    }
    return output;
  }

  Output(Output&&) noexcept = default;
  Output& operator=(Output&&) = delete;

  ~Output() {
    if (fd_.is_open()) {
      ::unlink(draft().c_str());
    }
  }

  Status Write(std::string_view text) {
    if (fd_.is_open()) {
      return WriteAll(fd_.get(), text, draft());
    }
    console_.out(text);
    return console_.out_status ? console_.out_status() : Status::Ok();
  }

  Status Finish() {
    if (!fd_.is_open()) {
      return Status::Ok();
    }
    if (::fsync(fd_.get()) != 0) {
      return IoError("cannot write", draft());
    }
    PS_TRY(MoveIntoPlace(draft(), path_));
    fd_ = UniqueFd();
    return Status::Ok();
  }

 private:
  Output(std::string path, const run::Console& console)
      : path_(Target(std::move(path))), console_(console) {}

  /// A link stays one, and the file that it leads to is written.
  static std::string Target(std::string path) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::canonical(path, error);
    return path == "-" || error ? path : target.string();
  }

  std::string draft() const { return path_ + ".part"; }

  std::string path_;
  const run::Console& console_;
  UniqueFd fd_;
};

Status ApplyAll(
    const worker::Inputs& inputs,
    worker::TrainedModel* model,
    Predictions* predictions,
    RateLine* line,
    Output* output) {
  std::string text = predictions->Header();
  for (uint64_t begin = 0; begin < inputs.count; begin += model->batch_samples()) {
    const uint64_t end = std::min(begin + model->batch_samples(), inputs.count);
    PS_ASSIGN(const std::span<const float> outputs, model->Apply(inputs, begin, end));
    const size_t size = outputs.size() / (end - begin);
    for (uint64_t i = begin; i < end; ++i) {
      const std::string name = inputs.names.empty() ? std::to_string(i) : inputs.names[i];
      PS_TRY(predictions->Append(name, outputs.subspan((i - begin) * size, size), &text));
    }
    PS_TRY(output->Write(text));
    text.clear();
    line->Show(end);
  }
  return output->Finish();
}

Status Apply(const ApplyCommand& command, const Session& session) {
  PS_ASSIGN(const LoadedModel loaded, LoadModel(command.choice, session));
  const worker::ModelCard& card = loaded.chosen.card;
  if (card.data.mask > 0) {
    return Status::InvalidArgument(
        "the model learns tokens that are hidden, and there are none in data that it is applied "
        "to; psctl evaluate says how well it does");
  }
  PS_ASSIGN(Predictions predictions, Predictions::Of(card, loaded.model->model(), command.top));
  PS_ASSIGN(const std::string path, DataOf(command.data, loaded.chosen, session.console));
  PS_ASSIGN(
      const worker::Inputs inputs, worker::OpenInputs(card, path, worker::LabelUse::kIgnored));
  PS_ASSIGN(Output output, Output::Open(command.output, session.console));
  RateLine line(session.console, inputs.count);
  PS_TRY(ApplyAll(inputs, loaded.model.get(), &predictions, &line, &output));
  session.console.err(fmt::format(
      "{}: {} on {}\n",
      command.output == "-" ? path : command.output,
      line.Summary(),
      loaded.device.name));
  return Status::Ok();
}

void AddArguments(ApplyCommand* command, Arguments* arguments) {
  AddModel(&command->choice, arguments);
  arguments
      ->Add(
          "DATA",
          &command->data,
          "Folder or file in the format of the model's job; labels may be missing")
      .Required();
  arguments->Add("-o,--output", &command->output, "CSV file to write; - for stdout")
      .Value("FILE")
      .Required();
  arguments
      ->Add(
          "--top",
          &command->top,
          "Only so many of the likeliest classes (all when absent; of tokens 1)")
      .Value("K");
  AddDevice(&command->choice, arguments);
  AddTokenizer(&command->choice, arguments);
}

int Run(const ApplyCommand& command, const Session& session) {
  const Status applied = Apply(command, session);
  return applied.ok() ? run::kExitOk : run::Fail(session.console, applied);
}

}  // namespace

constinit const Command kApply = {
    .path = "apply",
    .group = Group::kKeep,
    .help = "What a trained model says of data, as a table",
    .examples =
        {{{"psctl apply mnist new.csv -o predictions.csv", "classes and their probabilities"},
          {"psctl apply model.safetensors new.npy -o - --top 3",
           "the likeliest three, to stdout"}}},
    .declare = Declare<ApplyCommand, AddArguments, Run>};

}  // namespace ps::psctl
