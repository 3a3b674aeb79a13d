#include "run/directory/model_card.h"

#include <utility>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/json/json_reader.h"
#include "ps/json/json_writer.h"
#include "ps/proto/job/job_config.h"
#include "worker/use/card_of_job.h"

namespace ps::run {

Status WriteModelCard(const std::string& path, const std::map<std::string, std::string>& card) {
  JsonWriter json;
  json.BeginObject();
  for (const auto& [key, text] : card) {
    json.Field(key, text);
  }
  json.EndObject();
  return WriteFileAtomically(path, std::move(json).Take());
}

Result<std::map<std::string, std::string>> ReadModelCard(const std::string& path) {
  PS_ASSIGN(const std::string text, ReadFile(path));
  std::map<std::string, std::string> card;
  JsonReader reader(text, path, JsonComments::kRefused);
  const auto read = [&]() -> Status {
    PS_TRY(reader.Begin());
    PS_TRY(reader.Object([&](const std::string& key, Place) -> Status {
      PS_ASSIGN(card[key], reader.Text());
      return Status::Ok();
    }));
    return reader.End();
  };
  const Status status = read();
  if (!status.ok()) {
    return Status::Corruption(std::string(status.message()));
  }
  return card;
}

Result<std::map<std::string, std::string>> CardOfCheckpoint(
    const std::string& card_path, const std::string& config_json) {
  Result<std::map<std::string, std::string>> kept = ReadModelCard(card_path);
  if (kept.ok() || kept.status().code() != StatusCode::kNotFound) {
    return kept;
  }
  PS_ASSIGN(const proto::JobConfig config, proto::ParsePrintedJobConfig(config_json));
  // Whoever wrote the checkpoint has chosen them, and they may be much.
  for (const std::string& place : {config.data.directory, config.data.tokenizer}) {
    if (place.find("://") != std::string::npos) {
      return Status::Unavailable(
          "the data of its job are in " + Printable(place) + ", and nobody has named them here");
    }
  }
  PS_ASSIGN(const worker::ModelCard card, worker::CardOfJob(config));
  return worker::MetadataOf(card);
}

}  // namespace ps::run
