// What a run keeps in files and reads again: its events, and what a worker's program says that it
// trains.

#include <set>
#include <string>
#include <string_view>

#include "checkpoint/model/kept_tensors.h"
#include "checkpoint/model/safetensors.h"
#include "ps/base/check.h"
#include "ps/base/text.h"
#include "run/directory/event_log.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/targets.h"
#include "worker/script/description.h"

namespace ps::fuzz {
namespace {

void CheckEvent(const proto::EventRow& event) {
  const std::string shown = run::RenderEvent(event);
  PS_CHECK(!shown.empty() && Printable(shown) == shown) << shown;
  const std::string line = run::EventToJson(event);
  PS_CHECK(line.find('\n') == line.size() - 1) << line;
  const auto again = run::EventFromJson(line);
  const bool is_utf8 = line.find("\xef\xbf\xbd") == std::string::npos;
  PS_CHECK(again && (!is_utf8 || *again == event)) << line;
  PS_CHECK(run::EventToJson(*again) == line) << line;
}

}  // namespace

bool FuzzEvents(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  const std::string_view text = Text(input.subspan(1));
  std::optional<proto::EventRow> event;
  if (input.front() % 2 == 0) {
    event = run::EventFromJson(text);
  } else if (const auto line = run::ParseLogLine(text)) {
    event = run::EventOf(*line);
  }
  if (event) {
    CheckEvent(*event);
  }
  return event.has_value();
}

bool FuzzDescription(std::span<const uint8_t> input) {
  if (input.size() < 2) {
    return false;
  }
  const uint64_t data_bytes = input[0] + 256U * input[1];
  const MemoryFile file(SafetensorsFileOf(input.subspan(2), data_bytes));
  if (const auto reader = checkpoint::SafetensorsReader::Open(file.path()); reader.ok()) {
    const Result<checkpoint::KeptTensors> kept = checkpoint::ParseKept(reader->header());
    PS_CHECK(kept.ok() || kept.status().code() == StatusCode::kCorruption) << kept.status();
  }
  const Result<worker::Description> description = worker::ReadDescription(file.path());
  if (!description.ok()) {
    const std::string_view message = description.status().message();
    PS_CHECK(!message.empty() && message.find('\n') == std::string_view::npos) << message;
    return false;
  }
  std::set<std::string_view> names;
  for (const TensorSpec& tensor : description->tensors) {
    PS_CHECK(names.insert(tensor.name).second) << tensor.name;
    PS_CHECK(tensor.element_count() >= 0) << tensor.name;
    PS_CHECK(tensor.average_rate >= 0 && tensor.average_rate <= 1) << tensor.average_rate;
  }
  PS_CHECK(worker::CheckSameTensors(description->tensors, description->tensors).ok());
  return true;
}

}  // namespace ps::fuzz
