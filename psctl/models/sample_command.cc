#include "psctl/models/sample_command.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace ps::psctl {
namespace {

constexpr uint32_t kTokensMax = 1'000'000;
constexpr double kTemperatureMax = 100;

/// What a model writes is no command to a terminal.
std::string Harmless(std::string_view bytes) {
  std::string text(bytes);
  for (char& c : text) {
    const auto byte = static_cast<uint8_t>(c);
    c = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f ? '?' : c;
  }
  return text;
}

Status SampleText(const SampleCommand& command, const Session& session) {
  PS_ASSIGN(const LoadedModel loaded, LoadModel(command.choice, session));
  PS_TRY(worker::CheckCausal(loaded.chosen.card, loaded.model->model()));
  PS_ASSIGN(worker::Tokens tokens, worker::Tokens::Of(loaded.chosen.card));
  const run::Console& console = session.console;
  bool is_begun = false;
  const auto write = [&](std::string_view bytes) {
    if (!std::exchange(is_begun, true)) {
      console.out(Harmless(command.prompt));
    }
    console.out(Harmless(bytes));
    return !console.out_status || console.out_status().ok();
  };
  PS_TRY(worker::Sample(command.prompt, command.sampling, loaded.model.get(), &tokens, write));
  console.out("\n");
  return Status::Ok();
}

Status CheckRanges(const SampleCommand& command) {
  const worker::Sampling& sampling = command.sampling;
  if (sampling.tokens < 1 || sampling.tokens > kTokensMax) {
    return Status::InvalidArgument(
        fmt::format("--tokens wants a number from 1 to {}, as in --tokens 200", kTokensMax));
  }
  if (!(sampling.temperature >= 0 && sampling.temperature <= kTemperatureMax)) {
    return Status::InvalidArgument(fmt::format(
        "--temperature wants a number from 0 to {}, as in --temperature 0.8", kTemperatureMax));
  }
  return Status::Ok();
}

void AddArguments(SampleCommand* command, Arguments* arguments) {
  AddModel(&command->choice, arguments);
  arguments->Add("--prompt", &command->prompt, "The text to go on with").Value("TEXT").Required();
  arguments->Add("--tokens", &command->sampling.tokens, "How many to write (200 when absent)")
      .Value("N");
  arguments
      ->Add(
          "--temperature",
          &command->sampling.temperature,
          "Below 1 the likely is preferred, above 1 the unlikely; 0: always the likeliest (1 when "
          "absent)")
      .Value("T");
  arguments
      ->Add("--top-k", &command->sampling.top_k, "Among the K likeliest only (all when absent)")
      .Value("K");
  arguments->Add("--seed", &command->sampling.seed, "Another one, another text (1 when absent)")
      .Value("S");
  AddDevice(&command->choice, arguments);
  AddTokenizer(&command->choice, arguments);
  arguments->Check([command] { return CheckRanges(*command); });
}

int Run(const SampleCommand& command, const Session& session) {
  const Status sampled = SampleText(command, session);
  return sampled.ok() ? run::kExitOk : run::Fail(session.console, sampled);
}

}  // namespace

constinit const Command kSample = {
    .path = "sample",
    .group = Group::kKeep,
    .help = "Have a trained language model go on with a text",
    .examples =
        {{{"psctl sample gpt --prompt Once", "200 tokens of the job's newest run"},
          {"psctl sample gpt --prompt The --top-k 20", "without what is unlikely"}}},
    .declare = Declare<SampleCommand, AddArguments, Run>};

}  // namespace ps::psctl
